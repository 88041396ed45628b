import { CniError } from "#cni/error.ts";
import { summarize } from "#lib/parsing/document-error.ts";

/** A problem of a selection annotation. */
export interface SelectionProblem {
  /** The element, from 1; 0 for the annotation as a whole. */
  readonly position: number;
  /** The key in the element, e.g. `mac` or `portMappings[0].hostPort`; empty for the element. */
  readonly key: string;
  readonly reason: string;
}

const maxProblemsInMessage = 5;

/**
 * An invalid network selection annotation, with all problems. One invalid element makes the whole
 * annotation invalid (multi-network specification v1.1 §4.1.2.1).
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

/** A problem in one line: `element 2, key "mac": must be a … hardware address, got "zz"`. */
export function formatProblem({ position, key, reason }: SelectionProblem): string {
  const parts = [
    ...(position === 0 ? [] : [`element ${position}`]),
    ...(key === "" ? [] : [`key "${key}"`]),
  ];
  return parts.length === 0 ? reason : `${parts.join(", ")}: ${reason}`;
}
