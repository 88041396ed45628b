import type { RunDelegate } from "#cni/runtime/delegate.ts";
import type { TimeBudget } from "#lib/concurrency/time-budget.ts";

/** The time of the plugins of one call. */
interface PluginLimits {
  /** For all of them together. */
  readonly budget: TimeBudget;
  /** For each of them, so that one that hangs leaves time for others. @default all of the budget */
  readonly eachMs?: number;
  /** What the plugins do; for people. */
  readonly task: string;
}

/** Limits the time of plugins beyond `delegateTimeoutMs`. A plugin without time left has failed. */
export function limitedRunner(
  run: RunDelegate,
  { budget, eachMs = Number.POSITIVE_INFINITY, task }: PluginLimits,
): RunDelegate {
  return async (call) => {
    const timeoutMs = Math.min(call.timeoutMs, eachMs, Math.floor(budget.remainingMs));
    if (timeoutMs >= 1) return run({ ...call, timeoutMs });
    const message = `not executed: the time for ${task} is used up`;
    return { outcome: "failed", code: 0, stdout: "", stderr: "", message, elapsedUs: 0 };
  };
}
