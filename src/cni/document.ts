import { DocumentError, withValue } from "#lib/document-error.ts";
import { type FieldReader, type ReadingRules, readFields } from "#lib/field-reader.ts";
import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";
import { JsonTextError, parseJsonText } from "#lib/json-text.ts";
import { CniError, CniErrorCode } from "./error.ts";

/** How a document is read, and how its error is given. */
interface DocumentOptions extends ReadingRules {
  /** What the message begins with, e.g. `cannot decode result`. */
  readonly subject: string;
  /** The code of a document that is not what it must be. */
  readonly code: number;
}

/**
 * Reads an object, field by field, with `read`.
 * @throws CniError of the code, naming every field that is wrong
 */
export function readDocument<T>(
  value: unknown,
  options: DocumentOptions,
  read: (fields: FieldReader) => T,
): T {
  try {
    return readFields(value, options, read);
  } catch (error) {
    if (!(error instanceof DocumentError)) throw error;
    throw new CniError(options.code, error.message, { cause: error });
  }
}

/**
 * The object in a JSON text, or the value itself when it is no text.
 * @throws CniError 6 that begins with the subject, also when it is no object
 */
export function readJsonObject(value: unknown, subject: string): JsonObject {
  const parsed = typeof value === "string" ? parseJson(value, subject) : value;
  if (isJsonObject(parsed)) return parsed;
  throw new CniError(
    CniErrorCode.DecodingFailure,
    `${subject}: ${withValue("must be an object", parsed)}`,
  );
}

/**
 * The value of a JSON text.
 * @throws CniError 6, or of the given code, that begins with the subject and names line and column
 */
export function parseJson(
  text: string,
  subject: string,
  code: number = CniErrorCode.DecodingFailure,
): Json {
  try {
    return parseJsonText(text);
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error;
    throw new CniError(code, `${subject}: not valid JSON: ${error.message}`, { cause: error });
  }
}
