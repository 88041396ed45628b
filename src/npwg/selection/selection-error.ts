import { CniError, CniErrorCode } from "#cni/error.ts";
import { jsonTypeName, quoteValue } from "#lib/json.ts";

/** One thing that is wrong in a selection annotation. */
export interface SelectionProblem {
  /** The element, counted from 1; 0 = the annotation as a whole. */
  readonly position: number;
  /** The key within the element, e.g. `mac` or `portMappings[0].hostPort`; empty = the element itself. */
  readonly key: string;
  /** What was written there, shortened. */
  readonly value: string;
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

  constructor(what: string, problems: readonly SelectionProblem[]) {
    const shown = problems.slice(0, maxProblemsInMessage).map(formatProblem);
    const rest = problems.length - shown.length;
    const tail = rest === 0 ? "" : `; and ${rest} more`;
    super(CniErrorCode.InvalidRequest, `${what} is invalid: ${shown.join("; ")}${tail}`);
    this.problems = problems;
  }
}

/** A problem in one line: `element 2, key "mac", value "zz": not a … hardware address`. */
export function formatProblem(problem: SelectionProblem): string {
  const parts = [
    problem.position === 0 ? "" : `element ${problem.position}`,
    problem.key === "" ? "" : `key "${problem.key}"`,
    problem.value === "" ? "" : `value ${quoteValue(problem.value)}`,
  ].filter((part) => part !== "");
  return parts.length === 0 ? problem.reason : `${parts.join(", ")}: ${problem.reason}`;
}

/** A value as a problem shows it: strings as they are, everything else as JSON or, when large, its type. */
export function describeValue(value: unknown): string {
  if (value === undefined) return "";
  if (typeof value === "string") return value.length <= 80 ? value : `${value.slice(0, 80)}…`;
  const text = quoteValue(value);
  return text.length <= 80 ? text : jsonTypeName(value);
}
