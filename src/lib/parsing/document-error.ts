import { quoteValue } from "#lib/json.ts";

/** A problem of a document. */
export interface FieldProblem {
  /** The field, e.g. `plugins[0].type`; "" for the document. */
  readonly path: string;
  readonly reason: string;
}

const maxShown = 10;

/** An invalid document, with all its problems. */
export class DocumentError extends Error {
  override readonly name = "DocumentError";
  readonly problems: readonly FieldProblem[];

  /** The message is `<subject>: <path>: <reason>; <path>: <reason>`. */
  constructor(subject: string, problems: readonly FieldProblem[]) {
    super(`${subject}: ${summarize(problems.map(formatProblem), maxShown)}`);
    this.problems = problems;
  }
}

/** Joins the first texts, and counts the rest. */
export function summarize(texts: readonly string[], maxTexts: number): string {
  const rest = texts.length - maxTexts;
  const shown = texts.slice(0, maxTexts).join("; ");
  return rest > 0 ? `${shown}; and ${rest} more` : shown;
}

/** Appends the wrong value to a reason, unless it is undefined. */
export function withValue(reason: string, value: unknown): string {
  return value === undefined ? reason : `${reason}, got ${quoteValue(value)}`;
}

function formatProblem({ path, reason }: FieldProblem): string {
  return path === "" ? reason : `${path}: ${reason}`;
}
