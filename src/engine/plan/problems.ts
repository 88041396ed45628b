import type { CniError } from "#cni/error.ts";

/** Why an ADD of a pod fails. */
export interface PlanProblem {
  readonly error: CniError;
  /** The network with the problem; absent where it concerns the whole pod. */
  readonly network?: string;
}

/** One error for all problems, with the code and the reason of the first. @throws CniError if there are any */
export function throwProblems(problems: readonly PlanProblem[]): void {
  const first = problems[0]?.error;
  if (first === undefined) return;
  const messages = [...new Set(problems.map(({ error }) => error.message))];
  throw messages.length === 1 ? first : first.withMessage(messages.join("; "));
}
