import type { DelegateCall } from "#cni/runtime/delegate.ts";
import type { AttachmentRecord, RecordKey } from "./record.ts";
import type { TeardownPlan } from "./teardown-plan.ts";

/** A record that cannot be used: unreadable, of a newer schema, or failing its checksum. */
export interface DamagedRecord extends RecordKey {
  readonly reason: string;
}

/** A record that has been created. */
export interface CreatedRecord {
  /** Resolves when no power loss can take it away. Rejects with CniError 5 when that cannot be achieved. */
  readonly durable: Promise<void>;
}

/**
 * The attachment records of the node, each with its teardown plan, by container ID and interface
 * name. Every process on the node sees what a resolved method has written.
 *
 * What survives a power loss depends on the method, because durability costs milliseconds:
 *
 * - {@link create} comes before the first delegate of an ADD. From then on whoever tears the sandbox
 *   down finds every attachment that may have to be detached. It becomes durable while the delegates
 *   run, and the runtime is answered only when it is.
 * - {@link update} follows with what is known only later: the results of the delegates, or what a
 *   rollback could not detach. It becomes durable shortly afterwards. A power loss before that
 *   leaves the content before the update or the new one. The content before the update still detaches
 *   everything, without `prevResult`.
 * - {@link finish} is not made durable. A record that returns after a power loss is detached again
 *   by the next DEL or GC, which delegates answer with success (CNI 1.1.0 §4 "DEL").
 *
 * The caller holds the sandbox's lock: no two processes write under one key at the same time.
 */
export interface RecordStore {
  /** @throws CniError 5 when the record cannot be read, 6 when it is damaged */
  load(key: RecordKey): Promise<AttachmentRecord | undefined>;
  /**
   * The teardown plan of a sandbox, whatever the state of its record.
   * @throws CniError 5 when the plan cannot be read, 6 when it is damaged
   */
  loadPlan(key: RecordKey): Promise<TeardownPlan | undefined>;
  /**
   * Writes the record and plan of a sandbox interface that is about to be attached, and begins to make
   * them durable. Replaces whatever is stored under the key, such as a plan whose record was lost: ADD
   * has refused a recorded interface before.
   * @throws CniError 5 when they cannot be written
   */
  create(record: AttachmentRecord, plan: TeardownPlan): Promise<CreatedRecord>;
  /**
   * Replaces the record and plan of a created sandbox interface, any number of times. When it
   * resolves, other processes see both; they are durable shortly afterwards, or after {@link flush}.
   * @throws CniError 5 when they cannot be written, or another process has finished the interface
   */
  update(record: AttachmentRecord, plan: TeardownPlan): Promise<void>;
  /** Makes every update durable, as far as that is possible; to be called before the process ends. */
  flush(): Promise<void>;
  /**
   * Forgets a sandbox interface of which everything is detached: removes record and plan, which need
   * not exist, and leaves a tombstone, by which the shim answers a repeated DEL without an engine.
   * @throws CniError 5 when they cannot be removed
   */
  finish(key: RecordKey): Promise<void>;
  /**
   * Keeps the DELs of the default network for the shim, which executes them with the variables of its own call
   * where a sandbox has no record and no engine answers. Durable when it resolves; writes only what has changed.
   * @throws CniError 5 when they cannot be written
   */
  keepDefaultPlan(calls: readonly DelegateCall[]): Promise<void>;
  /** Whether the sandbox interface was detached before, as far as tombstones are still kept. */
  hasTombstone(key: RecordKey): Promise<boolean>;
  /**
   * Removes what has no use any more: old tombstones, locks that nobody holds, and what a crash left
   * half-written. Never a file that a process may be using. Failures leave the file for the next time.
   */
  sweep(): Promise<void>;
  /** Renames record and plan, which need not exist, so that they no longer count but can be examined. */
  quarantine(key: RecordKey): Promise<void>;
  /** Whether any sandbox of the pod is recorded; cheap enough for every DEL. */
  hasPod(pod: { readonly namespace: string; readonly name: string }): Promise<boolean>;
  /** Every record, and every sandbox interface that has files but no usable record. */
  list(): Promise<{ records: AttachmentRecord[]; damaged: DamagedRecord[] }>;
}
