import type { AttachmentRecord, RecordKey } from "./record.ts";
import type { TeardownPlan } from "./teardown-plan.ts";

/** A record that cannot be used: unreadable, of a newer schema, or failing its checksum. */
export interface DamagedRecord extends RecordKey {
  readonly reason: string;
}

/**
 * The attachment records of the node, each with its teardown plan, by container ID and interface
 * name. Every process on the node sees what a resolved method has written.
 *
 * What survives a power loss depends on the method, because durability costs milliseconds:
 *
 * - {@link create} comes before the first delegate of an ADD and is durable. Whatever happens from
 *   then on, the record and the plan name every attachment that may have to be detached.
 * - {@link update} follows with what is known only later: the results of the delegates, or what a
 *   rollback could not detach. It becomes durable shortly afterwards. A power loss before that
 *   leaves, of each file, the content before the update or the new one. (On a file system that
 *   commits a rename before the data, as XFS does, a file may also be cut short; it then counts as
 *   damaged.) The content before the update still detaches everything, without `prevResult`.
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
   * Writes the record and plan of a sandbox interface that is about to be attached; durable when it
   * resolves. Replaces whatever is stored under the key, such as a plan whose record was lost: ADD
   * has refused a recorded interface before.
   * @throws CniError 5 when either cannot be written; the other one may have been
   */
  create(record: AttachmentRecord, plan: TeardownPlan): Promise<void>;
  /**
   * Replaces the record and plan of a created sandbox interface, any number of times. When it
   * resolves, other processes see both; they are durable shortly afterwards, or after {@link flush}.
   * @throws CniError 5 when either cannot be written; the other one may have been
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
