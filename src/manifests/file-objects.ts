import { type Document, isNode, isScalar, parseDocument, type Scalar } from "yaml";
import { errorMessage } from "#lib/error-message.ts";
import { type JsonObject, objectOf } from "#lib/json.ts";
import { type JsonTextError, parseJsonText } from "#lib/parsing/json-text.ts";
import { fieldPath } from "#lib/parsing/parse-with.ts";
import { offsetOf, parseDocuments, yamlOptions } from "#lib/parsing/yaml.ts";

/** The keys that lead to a value. */
export type Path = readonly (string | number)[];

/** A problem of a file. Lines count from 1; a whole document has no key. */
export interface FileProblem {
  readonly file: string;
  readonly line: number;
  readonly key: string;
  readonly problem: string;
  readonly severity: "error" | "warning";
}

/** A Kubernetes object in a file. */
export interface FileObject {
  readonly file: string;
  readonly value: JsonObject;
  /** The problem of a key, or of what `inside` leads to in the JSON that is its text. */
  readonly problemAt: (key: Path, problem: string, inside?: Path) => FileProblem;
}

const template = "is a template: check what it renders, such as the output of helm template";

/** The objects of a YAML or JSON text, those of Lists one by one, and why documents cannot be read. */
export function* objectsIn(file: string, written: string): Generator<FileObject | FileProblem> {
  const { documents, text, lines } = parseDocuments(written);
  /** @param part what is wrong, which may be a template */
  const problemOf = (part: string, offset: number, found: Pick<FileProblem, "key" | "problem">) => {
    const place = { file, line: lines.linePos(offset).line || 1 };
    const isTemplate = part.includes("{{");
    const severity: FileProblem["severity"] = isTemplate ? "warning" : "error";
    return { ...place, ...found, ...(isTemplate && { problem: template }), severity };
  };
  for (const document of documents) {
    const [invalid = aliasError(document)] = document.errors;
    const [start, , end] = document.range ?? [0, 0, 0];
    const part = invalid ? text.slice(start, end) : "";
    const at = placeIn(part, start) ?? invalid?.pos[0] ?? 0;
    if (invalid) yield problemOf(part, at, { key: "", problem: invalid.message });
    const insides = new Insides(text);
    for (const [path, value] of invalid ? [] : flattened([], document.toJS()))
      yield {
        ...{ file, value },
        problemAt: (key, problem, inside = []) => {
          const whole = [...path, ...key];
          const node: unknown = document.getIn(whole, true);
          const [from, to] = (isNode(node) && node.range) || [0, 0];
          const isText = isScalar(node) && node.range;
          const offset = isText ? insides.offset(node, inside) : offsetOf(whole, document);
          return problemOf(text.slice(from, to), offset, { key: fieldPath(key), problem });
        },
      };
  }
}

/** Where a template begins. */
function placeIn(part: string, start: number): number | undefined {
  const at = part.indexOf("{{");
  return at < 0 ? undefined : start + at;
}

/** Aliases without an anchor or without limit. */
function aliasError(document: Document): { pos: [number]; message: string } | undefined {
  try {
    document.toJS();
    return undefined;
  } catch (error) {
    return { pos: [0], message: errorMessage(error) };
  }
}

/** The object, or those of a List, each with its path; a text or number is one without a kind. */
function* flattened(path: Path, value: unknown): Generator<[Path, JsonObject]> {
  const { kind, items } = objectOf(value);
  if (/List$/.test(`${kind}`) && Array.isArray(items))
    for (const [i, item] of items.entries()) yield* flattened([...path, "items", i], item);
  else if (value !== null) yield [path, objectOf(value)];
}

/** The JSON in texts, each of which is read once. */
class Insides {
  readonly #text: string;
  /** Where it begins, and its document or where that is wrong. */
  readonly #read = new Map<Scalar, { readonly from: number; readonly json: Document | number }>();

  constructor(text: string) {
    this.#text = text;
  }

  /** The offset of a key, or of a syntax error. */
  offset(node: Scalar, inside: Path): number {
    const { from, json } = this.#read.get(node) ?? readInside(node, this.#text);
    this.#read.set(node, { from, json });
    if (typeof json === "number") return from + json;
    // The configuration of one plugin is read as a list of it.
    const isSingle = inside[0] === "plugins" && !json.has("plugins");
    return from + offsetOf(isSingle ? inside.slice(2) : inside, json);
  }
}

function readInside({ type, range }: Scalar, text: string) {
  const [start, end] = range ?? [0, 0];
  const quotes = type === "QUOTE_SINGLE" ? 1 : 0;
  const from = type?.startsWith("BLOCK") ? text.indexOf("\n", start) + 1 : start + quotes;
  // With escapes it is one string of JSON, where nothing is found: the place is its beginning.
  const json = text.slice(from, end - quotes);
  try {
    parseJsonText(json);
  } catch (error) {
    const before = json.split("\n").slice(0, (error as JsonTextError).line - 1);
    return { from, json: [...before, ""].join("\n").length };
  }
  return { from, json: parseDocument(json, yamlOptions) };
}
