import {
  type Document,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  parseAllDocuments,
} from "yaml";

/**
 * Options for parsing. By default, the library quotes the text in every error, which takes seconds
 * for some kilobytes with many errors, and prints warnings that quote it.
 */
export const yamlOptions = { prettyErrors: false, logLevel: "error" } as const;

/** A problem of a YAML text; line and column count from 1. */
export interface YamlProblem {
  /** May quote the wrong word. */
  readonly message: string;
  /** The kind of problem, without quotes: `UNEXPECTED_TOKEN`. */
  readonly code: string;
  readonly line: number;
  readonly column: number;
}

/** Text that is not YAML. */
export class YamlError extends Error {
  override readonly name = "YamlError";
  readonly problem: YamlProblem;

  constructor(problem: YamlProblem) {
    super(`${problem.message} ${placeOf(problem)}`);
    this.problem = problem;
  }
}

/** `at line 3, column 7` */
export function placeOf({ line, column }: Pick<YamlProblem, "line" | "column">): string {
  return `at line ${line}, column ${column}`;
}

/** The problems of a document parsed with {@link yamlOptions} and these lines. */
export function yamlProblems(
  { errors }: Pick<Document, "errors">,
  lines: LineCounter,
): YamlProblem[] {
  return errors.map(({ message, code, pos }) => {
    const { line, col } = lines.linePos(pos[0]);
    return { message, code, line, column: col };
  });
}

/**
 * The values of the documents in a YAML or JSON text.
 * @throws YamlError with the first problem and its place; Error for unknown aliases, or aliases
 * that expand without limit. Both have one line and may quote a word of the text.
 */
export function* parseYamlDocuments(text: string): Generator<unknown> {
  const { documents, lines } = parseDocuments(text);
  for (const document of documents) {
    const [problem] = yamlProblems(document, lines);
    if (problem !== undefined) throw new YamlError(problem);
    yield document.toJS();
  }
}

/** Values in quotes, which may have several lines. */
const quotedValues = /(?<=[ \t])(?:'(?:[^']|'')*'|"(?:[^"\\]|\\.)*")/gs;

/**
 * The documents of a text, with the text that their offsets are of, and its lines. As for kubectl, lines
 * in quotes need no indentation, and get some: many definitions end with `}'` below their key.
 */
export function parseDocuments(written: string): ReturnType<typeof parse> {
  const parsed = parse(written);
  const isUnclosed = ({ errors }: Document) => errors.some(({ code }) => code === "MISSING_CHAR");
  if (!parsed.documents.some(isUnclosed)) return parsed;
  return parse(
    written.replace(quotedValues, (value) => value.replaceAll("\n", `\n${" ".repeat(16)}`)),
  );
}

function parse(text: string) {
  const lines = new LineCounter();
  const documents: Document[] = [
    ...parseAllDocuments(text, { ...yamlOptions, merge: true, lineCounter: lines }),
  ];
  return { text, documents, lines };
}

/** The offset of the last key of a path, or of its parent if the key is absent. */
export function offsetOf(path: readonly PropertyKey[], document: Document): number {
  for (let length = path.length; length > 0; length--) {
    const parent: unknown = document.getIn(path.slice(0, length - 1), true);
    const last = path[length - 1];
    const pair = isMap(parent) ? parent.items.find(({ key }) => textOf(key) === last) : undefined;
    const node = pair?.key ?? (isSeq(parent) ? parent.get(Number(last), true) : undefined);
    if (isNode(node) && node.range) return node.range[0];
  }
  return document.contents?.range?.[0] ?? 0;
}

function textOf(key: unknown): unknown {
  return isScalar(key) ? key.value : key;
}
