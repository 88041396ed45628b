import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";
import { DocumentError, withValue } from "#lib/parsing/document-error.ts";
import { type FieldReader, type ReadingRules, readFields } from "#lib/parsing/field-reader.ts";
import { JsonTextError, parseJsonText } from "#lib/parsing/json-text.ts";
import type { Reason } from "#lib/reasons.ts";
import { CniError } from "./error.ts";

interface DocumentOptions extends ReadingRules {
  /** The beginning of error messages, e.g. `cannot decode result`. */
  readonly subject: string;
  readonly reason: Reason;
}

/** Reads an object, field by field. @throws CniError of the reason, naming every wrong field */
export function readDocument<T>(
  value: unknown,
  options: DocumentOptions,
  read: (fields: FieldReader) => T,
): T {
  try {
    return readFields(value, options, read);
  } catch (error) {
    if (!(error instanceof DocumentError)) throw error;
    throw new CniError(options.reason, error.message, { cause: error });
  }
}

/** The object in a JSON text, or the value if it is not a text. @throws CniError 6 */
export function readJsonObject(value: unknown, subject: string): JsonObject {
  const parsed = typeof value === "string" ? parseJson(value, subject) : value;
  if (isJsonObject(parsed)) return parsed;
  throw new CniError("DecodingFailure", `${subject}: ${withValue("must be an object", parsed)}`);
}

/** Parses JSON text. @throws CniError of the reason that names subject, line and column */
export function parseJson(text: string, subject: string, reason: Reason = "DecodingFailure"): Json {
  try {
    return parseJsonText(text);
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error;
    throw new CniError(reason, `${subject}: not valid JSON: ${error.message}`, { cause: error });
  }
}

/** Parses JSON text; undefined when it is invalid. */
export function tryParseJson(text: string): Json | undefined {
  try {
    return parseJsonText(text);
  } catch {
    return undefined;
  }
}
