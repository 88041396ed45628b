import { isJsonObject, type Json, type JsonObject, jsonTypeName, quoteValue } from "#lib/json.ts";
import { JsonTextError, parseJsonText } from "#lib/json-text.ts";
import { CniError, CniErrorCode } from "./error.ts";

/** More problems than this are only counted in the message. */
const shownProblems = 10;

/** Collects what is wrong with a document, each problem with the path of its field. */
export class Problems {
  readonly #found: string[] = [];

  add(path: string, problem: string): void {
    this.#found.push(path === "" ? problem : `${path}: ${problem}`);
  }

  /** @throws CniError of the code, `<subject>: <problem>; <problem>`, when there are any. */
  throwIfAny(code: number, subject: string): void {
    if (this.#found.length === 0) return;
    const rest = this.#found.length - shownProblems;
    const shown = this.#found.slice(0, shownProblems).join("; ");
    throw new CniError(code, `${subject}: ${shown}${rest > 0 ? `; and ${rest} more` : ""}`);
  }
}

/** Where a {@link FieldReader} is in its document, and how it reads. */
export interface FieldReaderOptions {
  readonly path: string;
  readonly problems: Problems;
  /** Find keys whatever their case, the last spelling winning, as Go's encoding/json does. */
  readonly foldCase?: boolean;
}

/** Reads the members of a JSON object; a wrong type is a problem, null is the same as absent. */
export class FieldReader {
  /** The object as it is. */
  readonly raw: JsonObject;
  readonly #members: ReadonlyMap<string, unknown>;
  readonly #options: FieldReaderOptions;

  constructor(object: JsonObject, options: FieldReaderOptions) {
    this.raw = object;
    this.#options = options;
    this.#members = new Map(Object.entries(object).map(([key, value]) => [this.#fold(key), value]));
  }

  #fold(key: string): string {
    return this.#options.foldCase === true ? key.toLowerCase() : key;
  }

  /** The path of a member, for messages. */
  pathOf(key: string): string {
    return this.#options.path === "" ? key : `${this.#options.path}.${key}`;
  }

  /** Notes a problem with a member. */
  problem(key: string, problem: string): void {
    this.#options.problems.add(this.pathOf(key), problem);
  }

  /** The member as it is; undefined for null as well. */
  value(key: string): unknown {
    return this.#members.get(this.#fold(key)) ?? undefined;
  }

  /** Whether the member is there, even as null. */
  has(key: string): boolean {
    return this.#members.has(this.#fold(key));
  }

  string(key: string): string | undefined {
    const value = this.value(key);
    if (value === undefined || typeof value === "string") return value;
    this.problem(key, `must be a string, got ${jsonTypeName(value)}`);
    return undefined;
  }

  /** A string that must be there and not be empty; "" after noting a problem. */
  required(key: string): string {
    const value = this.string(key);
    if (value === "" || this.value(key) === undefined) this.problem(key, "is missing");
    return value ?? "";
  }

  /** A whole number of at least `min`. */
  integer(key: string, min = 0): number | undefined {
    const value = this.value(key);
    if (value === undefined) return undefined;
    if (typeof value === "number" && Number.isSafeInteger(value) && value >= min) return value;
    const wanted = min === 0 ? "a non-negative integer" : "an integer";
    this.problem(key, `must be ${wanted}, got ${quoteValue(value)}`);
    return undefined;
  }

  /** Elements of another type than string are a problem, and left out. */
  strings(key: string): string[] {
    return this.#array(key).filter((value, index): value is string => {
      if (typeof value === "string") return true;
      this.problem(`${key}[${index}]`, `must be a string, got ${jsonTypeName(value)}`);
      return false;
    });
  }

  object(key: string): FieldReader | undefined {
    const value = this.value(key);
    return value === undefined ? undefined : this.#child(key, value);
  }

  /** A reader for each element; those that are no objects are a problem, and left out. */
  objects(key: string): FieldReader[] {
    return this.#array(key).flatMap((value, index) => this.#child(`${key}[${index}]`, value) ?? []);
  }

  /** How many elements the array has; 0 when it is absent. */
  count(key: string): number {
    return this.#array(key).length;
  }

  #array(key: string): readonly unknown[] {
    const value = this.value(key);
    if (value === undefined) return [];
    if (Array.isArray(value)) return value;
    this.problem(key, `must be an array, got ${jsonTypeName(value)}`);
    return [];
  }

  #child(key: string, value: unknown): FieldReader | undefined {
    if (isJsonObject(value))
      return new FieldReader(value, { ...this.#options, path: this.pathOf(key) });
    this.problem(key, `must be an object, got ${jsonTypeName(value)}`);
    return undefined;
  }
}

/**
 * The JSON object in a text, or the value itself when it is none.
 * @throws CniError 6 that begins with the subject.
 */
export function readJsonObject(value: unknown, subject: string): JsonObject {
  const parsed = typeof value === "string" ? parseJson(value, subject) : value;
  if (isJsonObject(parsed)) return parsed;
  throw new CniError(
    CniErrorCode.DecodingFailure,
    `${subject}: must be an object, got ${jsonTypeName(parsed)}`,
  );
}

/** @throws CniError 6 in one line that begins with the subject and names line and column. */
export function parseJson(text: string, subject: string): Json {
  try {
    return parseJsonText(text);
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error;
    throw new CniError(
      CniErrorCode.DecodingFailure,
      `${subject}: not valid JSON: ${error.message}`,
      { cause: error },
    );
  }
}
