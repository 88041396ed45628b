import { quoteValue } from "./json.ts";

/** One thing that is wrong with a document. */
export interface FieldProblem {
  /** Where, e.g. `plugins[0].type`; "" is the document itself. */
  readonly path: string;
  /** What is wrong there, and the value that is. */
  readonly reason: string;
}

/** More problems than this are only counted in the message. */
const maxShown = 10;

/** A document that cannot be used, with everything that is wrong with it. */
export class DocumentError extends Error {
  override readonly name = "DocumentError";
  readonly problems: readonly FieldProblem[];

  /** The message is `<subject>: <path>: <reason>; <path>: <reason>`. */
  constructor(subject: string, problems: readonly FieldProblem[]) {
    super(`${subject}: ${summarize(problems.map(formatProblem), maxShown)}`);
    this.problems = problems;
  }
}

/** Collects what is wrong with a document. */
export class Problems {
  readonly #found: FieldProblem[] = [];

  /** Everything that was added, in order. */
  get found(): readonly FieldProblem[] {
    return this.#found;
  }

  add(path: string, reason: string): void {
    this.#found.push({ path, reason });
  }

  /** @throws DocumentError when there are any */
  throwIfAny(subject: string): void {
    if (this.#found.length > 0) throw new DocumentError(subject, this.#found);
  }
}

/** The first texts, joined, and how many more there are. */
export function summarize(texts: readonly string[], maxTexts: number): string {
  const rest = texts.length - maxTexts;
  const shown = texts.slice(0, maxTexts).join("; ");
  return rest > 0 ? `${shown}; and ${rest} more` : shown;
}

/** A reason with the value that it is about, where there is one. */
export function withValue(reason: string, value: unknown): string {
  return value === undefined ? reason : `${reason}, got ${quoteValue(value)}`;
}

function formatProblem({ path, reason }: FieldProblem): string {
  return path === "" ? reason : `${path}: ${reason}`;
}
