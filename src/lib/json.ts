/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | JsonObject;

/** A JSON object with its keys as written. */
export interface JsonObject {
  [key: string]: Json;
}

/** Whether a value is a JSON object: not null, not an array. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * A value in one line for error messages, as JSON: a text of which more than `max` characters would
 * be shown is cut, anything else as large is only named by its type.
 */
export function quoteValue(value: unknown, max = 80): string {
  if (typeof value === "string" && value.length > max) {
    return JSON.stringify(`${value.slice(0, max)}…`);
  }
  const text = JSON.stringify(value) ?? String(value);
  if (typeof value === "string" || text.length <= max) return text;
  return Array.isArray(value) ? "an array" : "an object";
}
