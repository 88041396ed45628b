import { type Document, isScalar, parseDocument } from "yaml";
import { errorMessage } from "#lib/error-message.ts";
import { isJsonObject, type JsonObject } from "#lib/json.ts";
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
  for (const document of documents) {
    const [invalid = aliasError(document)] = document.errors;
    const [start, , end] = document.range ?? [0, 0, 0];
    const braces = invalid ? text.indexOf("{{") : text.slice(0, end).indexOf("{{", start);
    const problemAt = (offset: number, key: Path, problem: string): FileProblem => {
      const line = lines.linePos(braces < 0 ? offset : braces).line || 1;
      const what = braces < 0 ? { key: fieldPath(key), problem } : { key: "", problem: template };
      return { file, line, ...what, severity: "error" };
    };
    if (invalid) yield problemAt(invalid.pos[0], [], invalid.message);
    for (const [path, value] of invalid ? [] : flattened([], document.toJS()))
      yield {
        ...{ file, value },
        problemAt: (key, problem, inside = []) =>
          problemAt(offsetIn({ document, text }, [...path, ...key], inside), key, problem),
      };
  }
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

/** The object, or those of a List, each with its path. */
function* flattened(path: Path, value: unknown): Generator<[Path, JsonObject]> {
  if (!isJsonObject(value)) return;
  if (value.kind !== "List" || !Array.isArray(value.items)) yield [path, value];
  else for (const [i, item] of value.items.entries()) yield* flattened([...path, "items", i], item);
}

/** The offset of a key, or inside of the JSON of its text, where a syntax error comes first. */
function offsetIn(
  { document, text }: { readonly document: Document; readonly text: string },
  key: Path,
  inside: Path,
): number {
  const node: unknown = document.getIn(key, true);
  if (!isScalar(node) || !node.range) return offsetOf(key, document);
  const [start, end] = node.range;
  const quotes = node.type === "QUOTE_SINGLE" ? 1 : 0;
  const from = node.type?.startsWith("BLOCK") ? text.indexOf("\n", start) + 1 : start + quotes;
  // With escapes it is one string of JSON, where nothing is found: the place is its beginning.
  const json = text.slice(from, end - quotes);
  try {
    parseJsonText(json);
  } catch (error) {
    const before = json.split("\n").slice(0, (error as JsonTextError).line - 1);
    return from + [...before, ""].join("\n").length;
  }
  const parsed = parseDocument(json, yamlOptions);
  // The configuration of one plugin is read as a list of it.
  const isSingle = inside[0] === "plugins" && !parsed.has("plugins");
  return from + offsetOf(isSingle ? inside.slice(2) : inside, parsed);
}
