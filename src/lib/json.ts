import { printable } from "./one-line.ts";

/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | JsonObject;

/** A JSON object with its keys as written. */
export interface JsonObject {
  [key: string]: Json;
}

declare global {
  interface JSON {
    /** A value that `JSON.stringify` prints as this text. Node 20 and older browsers lack it. */
    rawJSON?(text: string): Json;
    isRawJSON?(value: unknown): value is { readonly rawJSON: string };
  }
}

/** Whether a value is an object: not null, not an array and not an integer of {@link parseExactly}. */
export function isJsonObject(value: unknown): value is JsonObject {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return isObject && !isLongInteger(value);
}

/** A value if it is an object, else an empty object. */
export function objectOf(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {};
}

/** The objects in a value that may be a list. */
export function objectsOf(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}

/** Whether a value is an integer of {@link parseExactly} that a double would change. */
export function isLongInteger(value: unknown): boolean {
  return JSON.isRawJSON?.(value) ?? false;
}

/** Where a number of 16 digits may begin. Shorter integers are exact. */
const longNumber = /(?:^|[\s:,[])-?\d{16}/;

/**
 * Parses JSON as `JSON.parse` does, but keeps an integer that a double would change, such as
 * 2^53 + 1, as a value that `JSON.stringify` prints with the same digits. Plugins get their
 * configuration and earlier results through Plexus.
 * Without {@link canKeepDigits} it returns the double: callers that cannot accept this check first.
 * @throws SyntaxError
 */
export function parseExactly(text: string): Json {
  if (!longNumber.test(text) || !canKeepDigits()) return JSON.parse(text) as Json;
  return JSON.parse(text, keepDigits as (key: string, value: Json) => Json) as Json;
}

/** Whether the engine can keep an integer that a double would change: Node 22 and newer browsers. */
export function canKeepDigits(): boolean {
  return JSON.rawJSON !== undefined;
}

function keepDigits(
  _key: string,
  value: Json,
  { source = "" }: { readonly source?: string },
): Json {
  return typeof value === "number" ? exactNumber(value, source) : value;
}

/** A number that was read from this text, with its digits as {@link parseExactly} keeps them. */
export function exactNumber(value: number, source: string): Json {
  return isChanged(value, source) ? (JSON.rawJSON?.(source) ?? value) : value;
}

/** Whether a double has other digits than the integer that it was read from. */
export function isChanged(value: number, source: string): boolean {
  const isInteger = Number.isFinite(value) && /^-?[1-9]\d*$/.test(source);
  return isInteger && String(value) !== source;
}

/** A value as JSON on one line: texts cut after `max` characters, other long values by type. */
export function quoteValue(value: unknown, max = 80): string {
  if (typeof value === "string") return quoteText(value, max);
  const text = printable(JSON.stringify(value) ?? String(value));
  if (text.length <= max) return text;
  return Array.isArray(value) ? "an array" : "an object";
}

/** Escaped characters count with their displayed length, up to six. */
function quoteText(text: string, max: number): string {
  const whole = text.length > max ? undefined : quoted(text);
  if (whole !== undefined && whole.length <= max + 2) return whole;
  let end = 0;
  for (let shown = 0; end < text.length; end++) {
    shown += quoted(text[end] ?? "").length - 2;
    if (shown > max) break;
  }
  return quoted(`${text.slice(0, end)}…`);
}

function quoted(text: string): string {
  return printable(JSON.stringify(text));
}

/** A key as Go compares it: without case, also of the two letters of Unicode that fold to ASCII. */
export function foldKey(key: string): string {
  return key.toUpperCase().toLowerCase();
}

/** The values of a key in any case, as Go's plugins read it; `name` is in lower case. */
export function membersOf(value: Json | undefined, name: string): Json[] {
  if (!isJsonObject(value)) return [];
  return Object.entries(value).flatMap(([key, member]) => (foldKey(key) === name ? [member] : []));
}
