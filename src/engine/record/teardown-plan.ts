import type { DelegateCall } from "#cni/runtime/delegate.ts";
import type { AttachmentRecord } from "./record.ts";

/** One DEL of a teardown plan. */
interface TeardownStep {
  /** The attachment's position in the order of attachment, from 0. */
  readonly group: number;
  readonly call: DelegateCall;
}

/** The DELs of a record, executable by the shim without an engine (shim/protocol.h, `PLAN`). */
export interface TeardownPlan {
  readonly bootId: string;
  /** Groups below this number may have run in that boot; those from it on have not. */
  readonly attempted: number;
  /** In the order of execution: last attached first, a chain's last plugin first. */
  readonly steps: readonly TeardownStep[];
}

/** A record and its teardown plan, which are stored as one. */
export interface StoredRecord {
  readonly record: AttachmentRecord;
  readonly plan: TeardownPlan;
}
