import { isJsonObject, isLongInteger, type JsonObject } from "#lib/json.ts";
import { DocumentError, type FieldProblem, withValue } from "./document-error.ts";

export interface ReadingRules {
  /** Ignore the case of keys, like Go's encoding/json; the last spelling wins. */
  readonly foldCase?: boolean;
}

/** Why a text is invalid, e.g. `must not be empty`; undefined when it is valid. */
type StringCheck = (text: string) => string | undefined;

interface FieldReaderOptions extends ReadingRules {
  /** "" for the document itself. */
  readonly path: string;
  /** Gets what is wrong. */
  readonly problems: FieldProblem[];
}

/**
 * Reads the fields of a JSON object by the rules of Go's encoding/json. Methods collect problems
 * with the field's path and continue, so that all are found. Plexus's own formats use zod.
 */
export class FieldReader {
  readonly raw: JsonObject;
  /** The fields by key in lower case; undefined when the case matters. */
  readonly #folded: ReadonlyMap<string, unknown> | undefined;
  readonly #options: FieldReaderOptions;

  constructor(object: JsonObject, options: FieldReaderOptions) {
    this.raw = object;
    this.#options = options;
    this.#folded = options.foldCase === true ? foldKeys(object) : undefined;
  }

  problem(key: string, reason: string): void {
    this.#options.problems.push({ path: this.#pathOf(key), reason });
  }

  /** Adds the problem that a field has another value than wanted. */
  mismatch(key: string, wanted: string): void {
    this.problem(key, withValue(`must be ${wanted}`, this.value(key)));
  }

  #pathOf(key: string): string {
    return this.#options.path === "" ? key : `${this.#options.path}.${key}`;
  }

  /** The field's value. null means absent, as in Go. */
  value(key: string): unknown {
    if (this.#folded !== undefined) return this.#folded.get(key.toLowerCase()) ?? undefined;
    return Object.hasOwn(this.raw, key) ? (this.raw[key] ?? undefined) : undefined;
  }

  /** Whether the field exists, even as null. */
  has(key: string): boolean {
    return this.#folded?.has(key.toLowerCase()) ?? Object.hasOwn(this.raw, key);
  }

  string(key: string): string | undefined {
    const value = this.value(key);
    if (value === undefined || typeof value === "string") return value;
    this.mismatch(key, "a string");
    return undefined;
  }

  /** A required string that is not empty; "" after a problem. */
  required(key: string): string {
    const value = this.string(key);
    if (value === "" || this.value(key) === undefined) this.problem(key, "is missing");
    return value ?? "";
  }

  /** A string that passes a check; undefined after a problem. */
  checked(key: string, problem: StringCheck): string | undefined {
    const value = this.string(key);
    const reason = value === undefined ? undefined : problem(value);
    if (reason === undefined) return value;
    this.problem(key, value === "" ? reason : withValue(reason, value));
    return undefined;
  }

  /** A required string that passes a check; "" after a problem. */
  requiredChecked(key: string, problem: StringCheck): string {
    if (this.value(key) === undefined) this.problem(key, "is missing");
    return this.checked(key, problem) ?? "";
  }

  /** An integer from `min` to `max`. */
  integer(key: string, range: { min?: number; max?: number } = {}): number | undefined {
    const { min = 0, max = Number.MAX_SAFE_INTEGER } = range;
    const value = this.value(key);
    if (value === undefined) return undefined;
    if (Number.isSafeInteger(value) && Number(value) >= min && Number(value) <= max)
      return Number(value);
    const isLong = isLongInteger(value) || (Number.isInteger(value) && Number(value) > max);
    this.mismatch(key, isLong ? `an integer from ${min} to ${max}` : integerName(min, max));
    return undefined;
  }

  /** The strings of an array. Other values, and strings that fail the check, are left out as problems. */
  strings(key: string, problem: StringCheck = () => undefined): string[] {
    return this.elements(key).filter((value, index): value is string => {
      const reason = typeof value === "string" ? problem(value) : "must be a string";
      if (reason !== undefined) this.problem(`${key}[${index}]`, withValue(reason, value));
      return reason === undefined;
    });
  }

  /** An object of strings; other values are problems and left out. */
  stringMap(key: string): Record<string, string> {
    const entries = Object.entries(this.object(key)?.raw ?? {});
    const strings = entries.filter((entry): entry is [string, string] => {
      const [name, value] = entry;
      if (typeof value === "string") return true;
      this.problem(`${key}["${name}"]`, withValue("must be a string", value));
      return false;
    });
    return Object.fromEntries(strings);
  }

  object(key: string): FieldReader | undefined {
    const value = this.value(key);
    return value === undefined ? undefined : this.#child(key, value);
  }

  /** A reader for each object of an array; other elements are problems and left out. */
  objects(key: string): FieldReader[] {
    return this.elements(key).flatMap(
      (value, index) => this.#child(`${key}[${index}]`, value) ?? [],
    );
  }

  /** The elements of an array; none when it is absent or not an array. */
  elements(key: string): readonly unknown[] {
    const value = this.value(key);
    if (value === undefined) return [];
    if (Array.isArray(value)) return value;
    this.mismatch(key, "an array");
    return [];
  }

  /** Adds a problem for every other key. */
  refuseOthers(keys: readonly string[]): void {
    for (const key of Object.keys(this.raw)) {
      if (!keys.includes(key)) this.problem(key, "unknown key");
    }
  }

  #child(key: string, value: unknown): FieldReader | undefined {
    if (isJsonObject(value)) {
      return new FieldReader(value, { ...this.#options, path: this.#pathOf(key) });
    }
    this.problem(key, withValue("must be an object", value));
    return undefined;
  }
}

function foldKeys(object: JsonObject): ReadonlyMap<string, unknown> {
  const folded = new Map<string, unknown>();
  for (const key of Object.keys(object)) folded.set(key.toLowerCase(), object[key]);
  return folded;
}

function integerName(min: number, max: number): string {
  if (max < Number.MAX_SAFE_INTEGER) return `an integer from ${min} to ${max}`;
  if (min === 0) return "a non-negative integer";
  return min === 1 ? "a positive integer" : "an integer";
}

/** Reads an object by field. @throws DocumentError naming the subject and every wrong field */
export function readFields<T>(
  value: unknown,
  rules: ReadingRules & { readonly subject: string },
  read: (fields: FieldReader) => T,
): T {
  if (!isJsonObject(value)) {
    const reason = withValue("must be an object", value);
    throw new DocumentError(rules.subject, [{ path: "", reason }]);
  }
  const problems: FieldProblem[] = [];
  const result = read(new FieldReader(value, { ...rules, path: "", problems }));
  if (problems.length > 0) throw new DocumentError(rules.subject, problems);
  return result;
}
