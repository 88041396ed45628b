import { type Document, LineCounter, parseAllDocuments } from "yaml";

/**
 * Options for every text that is parsed. The library's own messages quote the text, for each error anew: a
 * file of some kilobytes with many errors would take seconds. Its warnings, which quote it too, would go to stderr.
 */
export const yamlOptions = { prettyErrors: false, logLevel: "error" } as const;

/** What is wrong in a YAML text, and where. */
export interface YamlProblem {
  /** May quote the word that is wrong. */
  readonly message: string;
  /** The kind of problem, which quotes nothing: `UNEXPECTED_TOKEN`. */
  readonly code: string;
  /** From 1. */
  readonly line: number;
  /** From 1. */
  readonly column: number;
}

/** A text that is no YAML. */
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

/** The problems of a document that was parsed with {@link yamlOptions} and these lines. */
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
 * The documents of a YAML or JSON text, as values.
 * @throws YamlError with the first problem and its place; Error for aliases that have no anchor, or multiply a
 *   document without end. Either is one line, and may quote a word of the text.
 */
export function* parseYamlDocuments(text: string): Generator<unknown> {
  const lines = new LineCounter();
  for (const document of parseAllDocuments(text, { ...yamlOptions, lineCounter: lines })) {
    const [problem] = yamlProblems(document, lines);
    if (problem !== undefined) throw new YamlError(problem);
    yield document.toJS();
  }
}
