import type { DelegateCall } from "#cni/runtime/delegate.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import type { TimeBudget } from "#lib/concurrency/time-budget.ts";

/** An attachment to detach. */
export interface ChainToDetach {
  readonly network: string;
  readonly ifName: string;
  /** CNI_NETNS when the call began; "" = the namespace is gone. */
  readonly netns: string;
  /** Its sandbox; absent without a record. */
  readonly record?: AttachmentRecord;
  /** The DELs of its chain, last plugin first; their CNI_NETNS is replaced. */
  readonly calls: readonly DelegateCall[];
  readonly budget: TimeBudget;
  /** As the record keeps it; absent without a record. */
  readonly attachment?: RecordedAttachment;
  /**
   * The CNI_PATH of the sandbox's own runtime: a plugin that it lacks is missing, even if the shim
   * refuses to look into the recorded directory. Absent in calls of others, which may lack it.
   */
  readonly ownPath?: readonly string[] | undefined;
  /** Notes that the rest can be given up; returns for how many ms. Absent: no grace period. */
  readonly noteGivenUp?: (() => number) | undefined;
  /** Called when one more plugin is done, in their order: a repetition need not execute it. */
  readonly onPluginDone?: () => void;
}
