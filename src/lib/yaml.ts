import { type Document, LineCounter, parseAllDocuments } from "yaml";

/**
 * Options for every text that is parsed. The library's own messages quote the text, for each error anew: a
 * file of some kilobytes with many errors would take seconds. Its warnings, which quote it too, would go to stderr.
 */
export const yamlOptions = { prettyErrors: false, logLevel: "error" } as const;

/** What is wrong in a YAML text, and where. */
export interface YamlProblem {
  readonly message: string;
  /** From 1. */
  readonly line: number;
  /** From 1. */
  readonly column: number;
}

/** The problems of a document that was parsed with {@link yamlOptions} and these lines. */
export function yamlProblems(
  { errors }: Pick<Document, "errors">,
  lines: LineCounter,
): YamlProblem[] {
  return errors.map(({ message, pos }) => {
    const { line, col } = lines.linePos(pos[0]);
    return { message, line, column: col };
  });
}

/**
 * The documents of a YAML or JSON text, as values.
 * @throws Error with the first problem and its place, in one line that quotes nothing else of the text
 */
export function* parseYamlDocuments(text: string): Generator<unknown> {
  const lines = new LineCounter();
  for (const document of parseAllDocuments(text, { ...yamlOptions, lineCounter: lines })) {
    const [problem] = yamlProblems(document, lines);
    if (problem !== undefined) throw new Error(placed(problem));
    yield document.toJS();
  }
}

function placed({ message, line, column }: YamlProblem): string {
  return `${message} at line ${line}, column ${column}`;
}
