import { type Json, type JsonObject, jsonTypeName } from "#lib/json.ts";

/** Takes a problem with the value of a key, `path` being the place within it; returns undefined for its caller to return. */
export type Report = (problem: { path?: string; value: unknown; reason: string }) => undefined;

/** A report for a place within the value that `report` is for. */
export function reportAt(path: string, report: Report): Report {
  return (problem) => report({ ...problem, path: path + (problem.path ?? "") });
}

export function readString(value: Json, report: Report): string | undefined {
  return typeof value === "string"
    ? value
    : report({ value, reason: `${jsonTypeName(value)}, not a string` });
}

export function readInteger(
  value: Json,
  options: { report: Report; min: number; max: number },
): number | undefined {
  const { report, min, max } = options;
  if (typeof value !== "number")
    return report({ value, reason: `${jsonTypeName(value)}, not an integer` });
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  return report({ value, reason: `not an integer from ${min} to ${max}` });
}

/** An array's elements; undefined and reported when it is none. */
export function readArray(
  value: Json,
  options: { report: Report; of: string },
): Json[] | undefined {
  const { report, of } = options;
  return Array.isArray(value)
    ? value
    : report({ value, reason: `${jsonTypeName(value)}, not an array of ${of}` });
}

interface FoldOptions {
  readonly known: readonly string[];
  onWarning(warning: { key: string; value: unknown; reason: string }): void;
}

/**
 * The values of the known keys of an object. Go's decoder, and so Multus, reads keys in any case;
 * where a key is not written exactly, it is still read, with a warning, rather than losing what the
 * pod asked for. An exact key wins over others. Unknown keys that contain no period are reserved
 * (multi-network specification v1.1 §4.1.2.1) and warned of.
 */
export function foldKeys(object: JsonObject, options: FoldOptions): Map<string, Json> {
  const found = new Map<string, Json>();
  for (const [written, value] of Object.entries(object)) {
    const key = options.known.find((name) => name.toLowerCase() === written.toLowerCase());
    if (key === undefined) {
      if (!written.includes("."))
        options.onWarning({ key: written, value, reason: "unknown key, passed over" });
    } else if (key === written) found.set(key, value);
    else if (Object.hasOwn(object, key)) {
      options.onWarning({ key: written, value, reason: `passed over for "${key}"` });
    } else {
      options.onWarning({ key: written, value, reason: `read as "${key}"` });
      found.set(key, value);
    }
  }
  return found;
}
