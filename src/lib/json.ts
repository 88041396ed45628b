/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | JsonObject;

/** A JSON object with its keys as written. */
export interface JsonObject {
  [key: string]: Json;
}

/** Whether a value is an object: not null and not an array. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A value as JSON on one line: texts cut after `max` characters, other long values by type. */
export function quoteValue(value: unknown, max = 80): string {
  if (typeof value === "string") return quoteText(value, max);
  const text = JSON.stringify(value) ?? String(value);
  if (text.length <= max) return text;
  return Array.isArray(value) ? "an array" : "an object";
}

/** Escaped characters count with their displayed length, up to six. */
function quoteText(text: string, max: number): string {
  const whole = text.length > max ? undefined : JSON.stringify(text);
  if (whole !== undefined && whole.length <= max + 2) return whole;
  let end = 0;
  for (let shown = 0; end < text.length; end++) {
    shown += JSON.stringify(text[end]).length - 2;
    if (shown > max) break;
  }
  return JSON.stringify(`${text.slice(0, end)}…`);
}
