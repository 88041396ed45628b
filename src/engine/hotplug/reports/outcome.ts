import type { CniError } from "#cni/error.ts";
import type { HotPlugProblem } from "./conditions.ts";

/** One network that was plugged or unplugged, or should have been. */
export interface HotPlugOperation {
  readonly op: "add" | "remove";
  readonly result: "success" | "error";
  readonly network: string;
  readonly ifName: string;
  readonly error?: CniError;
  /** Resolves when the pod's status shows it, or the status is left to a later attempt. */
  readonly published: Promise<boolean>;
}

/** How an attempt ended to give a pod the networks of its annotation. */
export interface HotPlugOutcome {
  /**
   * `settled`: nothing to do until the annotation changes. `waiting`: for a change of the pod.
   * `busy`: another operation on its sandbox runs. `failed`: something is still to be done.
   */
  readonly state: "settled" | "waiting" | "busy" | "failed";
  readonly operations: readonly HotPlugOperation[];
  /** Why nothing was done, or not everything, besides the errors of operations. */
  readonly problems?: readonly HotPlugProblem[];
}

/** The last attempt for a pod. */
export interface LastAttempt extends Pick<HotPlugOutcome, "state"> {
  /** ISO 8601. */
  readonly at: string;
  readonly problems: readonly HotPlugProblem[];
  /** In how many milliseconds the next one is due: 0 while it runs; absent when none is. */
  readonly nextMs?: number;
}

/** All problems of an attempt, those of its operations included. */
export function problemsOf({ operations, problems = [] }: HotPlugOutcome): HotPlugProblem[] {
  const failures = operations.flatMap(({ op, error, network, ifName }) =>
    error === undefined ? [] : { error, network, ifName, isRemoval: op === "remove" },
  );
  return [...problems, ...failures];
}
