import type { DelegateCall } from "#cni/runtime/delegate.ts";
import type { EventSubject } from "#engine/ports.ts";
import type { FailedAdd } from "#engine/record/record.ts";
import type { TimeBudget } from "#lib/concurrency/time-budget.ts";

/** One attachment that is to be detached. */
export interface ChainToDetach {
  /** The name of its network for logs, events and errors. */
  readonly network: string;
  readonly ifName: string;
  /** CNI_NETNS; "" = the namespace is gone. */
  readonly netns: string;
  /** The DELs of its chain, last plugin first; their CNI_NETNS is replaced. */
  readonly calls: readonly DelegateCall[];
  readonly budget: TimeBudget;
  /** How its ADD failed, where a plugin said so itself. */
  readonly failedAdd?: FailedAdd | undefined;
  /**
   * For how long its DELs have failed, in milliseconds; grace periods go by that. Absent: a missing plugin is not waited
   * for, and no grace period is over.
   */
  readonly failingMs?: number | undefined;
  /** Gets the events; absent for a sandbox that is no pod. */
  readonly pod?: EventSubject | undefined;
}
