import { isObject } from "./json.ts";

/** Values of placeholders such as `{{binDir}}`. */
export type Values = Readonly<Record<string, unknown>>;

const placeholder = /\{\{([\w.]+)\}\}/g;

/**
 * Replaces the placeholders in all strings of a JSON value. A string that is only a placeholder becomes
 * the placeholder's value, which may be an object.
 * @throws Error naming a placeholder that does not exist
 */
export function fill<T>(template: T, values: Values): T {
  return fillValue(template, values) as T;
}

function fillValue(template: unknown, values: Values): unknown {
  if (typeof template === "string") return fillText(template, values);
  if (Array.isArray(template)) return template.map((each) => fillValue(each, values));
  if (!isObject(template)) return template;
  const entries = Object.entries(template).map(([key, value]) => [
    String(fillText(key, values)),
    fillValue(value, values),
  ]);
  return Object.fromEntries(entries);
}

function fillText(text: string, values: Values): unknown {
  const whole = /^\{\{([\w.]+)\}\}$/.exec(text)?.[1];
  if (whole !== undefined) return lookUp(whole, values);
  return text.replaceAll(placeholder, (_, name: string) => {
    const value = lookUp(name, values);
    return typeof value === "string" ? value : JSON.stringify(value);
  });
}

function lookUp(name: string, values: Values): unknown {
  if (values[name] !== undefined) return values[name];
  const known = Object.keys(values).filter((each) => values[each] !== undefined);
  throw new Error(`placeholder {{${name}}}: no such value here; there are ${known.join(", ")}`);
}
