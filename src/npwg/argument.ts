import { quoteValue } from "#lib/json.ts";

/** For callers without types, such as of a pod without the annotation. @throws TypeError */
export function requireText(caller: string, given: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(given)) {
    if (typeof value === "string") continue;
    throw new TypeError(`${caller}: ${name} must be a string, got ${quoteValue(value)}`);
  }
}
