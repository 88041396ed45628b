import { problemsText } from "#engine/hotplug/reports/conditions.ts";
import type { HotPlugOutcome } from "#engine/hotplug/reports/outcome.ts";

export const refreshPage = "refresh";

/** How a network of a pod was plugged anew. */
export interface Refreshed extends Pick<HotPlugOutcome, "state"> {
  /** Why nothing was done, or not everything; absent when all was done, or `operations` say why. */
  readonly problem?: string;
  readonly operations: readonly {
    readonly op: "add" | "remove";
    readonly network: string;
    readonly ifName: string;
    /** Why it failed; absent when it succeeded. */
    readonly message?: string;
  }[];
}

export function refreshedAnswer({ state, operations, problems = [] }: HotPlugOutcome): Refreshed {
  const problem = problemsText(problems);
  return {
    state,
    operations: operations.map(({ op, network, ifName, error }) => ({
      ...{ op, network, ifName },
      ...(error && { message: error.message }),
    })),
    ...(problem !== "" && { problem }),
  };
}
