import { type Document, LineCounter, parseAllDocuments } from "yaml";

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
  const lines = new LineCounter();
  for (const document of parseAllDocuments(text, { ...yamlOptions, lineCounter: lines })) {
    const [problem] = yamlProblems(document, lines);
    if (problem !== undefined) throw new YamlError(problem);
    yield document.toJS();
  }
}
