import { CniError } from "#cni/error.ts";
import { type FieldProblem, summarize } from "#lib/document-error.ts";

/** One thing that is wrong in a selection annotation. */
export interface SelectionProblem {
  /** The element, counted from 1; 0 = the annotation as a whole. */
  readonly position: number;
  /** The key within the element, e.g. `mac` or `portMappings[0].hostPort`; empty = the element itself. */
  readonly key: string;
  /** What is wrong, and the value that is. */
  readonly reason: string;
}

/** How many problems the message spells out; the rest are counted. */
const maxProblemsInMessage = 5;

/**
 * A network selection annotation that is invalid, and therefore invalid as a whole (multi-network
 * specification v1.1 §4.1.2.1); `problems` holds everything that is wrong with it.
 */
export class SelectionError extends CniError {
  override readonly name = "SelectionError";
  readonly problems: readonly SelectionProblem[];

  constructor(annotation: string, problems: readonly SelectionProblem[]) {
    const summary = summarize(problems.map(formatProblem), maxProblemsInMessage);
    super("InvalidAnnotation", `${annotation} is invalid: ${summary}`);
    this.problems = problems;
  }
}

/** A problem with a field of an element as one of the annotation. */
export function selectionProblem(position: number, problem: FieldProblem): SelectionProblem {
  return { position, key: problem.path, reason: problem.reason };
}

/** A problem in one line: `element 2, key "mac": must be a … hardware address, got "zz"`. */
export function formatProblem({ position, key, reason }: SelectionProblem): string {
  const parts = [
    ...(position === 0 ? [] : [`element ${position}`]),
    ...(key === "" ? [] : [`key "${key}"`]),
  ];
  return parts.length === 0 ? reason : `${parts.join(", ")}: ${reason}`;
}
