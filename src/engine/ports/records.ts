import { CniError } from "#cni/error.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { type AttachmentRecord, isOfPod } from "#engine/record/record.ts";
import type { StoredRecord, TeardownPlan } from "#engine/record/teardown-plan.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import type { ComparedPod } from "./cluster.ts";

/** A record that cannot be used: unreadable, of a newer schema, or failing its checksum. */
export interface DamagedRecord extends RecordKey {
  /** CniError 6 for content that is not usable; 5 if it cannot be read now, or by this version. */
  readonly error: CniError;
  /** Its teardown plan, if that is usable. */
  readonly plan: TeardownPlan | undefined;
  /** Whether the power was lost before its content was on disk, or something emptied it. */
  readonly isIncomplete: boolean;
  /** Whether its content cannot be read, as on a bad block: it may be of any sandbox. */
  readonly isUnreadable: boolean;
  /** When its content was last changed: milliseconds since 1970, by the machine's clock then. */
  readonly modifiedMs: number;
  /** Whether it may be about what this text of JSON names. */
  readonly mayContain: (text: string) => boolean;
}

/** All records of a node, and those that are damaged. */
export interface RecordList {
  readonly records: readonly AttachmentRecord[];
  readonly damaged: readonly DamagedRecord[];
}

/** @throws CniError 11 if one of these records cannot be read: nothing says whom it is about */
export function checkReadable(damaged: readonly DamagedRecord[]): void {
  const unreadable = damaged.find(({ isUnreadable }) => isUnreadable);
  if (unreadable !== undefined) throw new CniError("TryAgainLater", unreadable.error.message);
}

/**
 * Reads the attachment records of the node, each with its teardown plan, by container ID and
 * interface name. Every process on the node sees what a resolved method of {@link RecordWriter} has
 * written.
 */
export interface RecordReader {
  /** @throws CniError 5 when the record cannot be read, 6 when it is damaged */
  load(key: RecordKey): Promise<StoredRecord | undefined>;
  /** All records as they are now. @throws Error if they cannot be listed */
  list(): Promise<RecordList>;
  /**
   * Usable records, at least those that contain a text of JSON: cheap enough for every ADD. What
   * other processes have changed since the last list may be missing. @throws as {@link list}
   */
  known(text: string): Promise<readonly AttachmentRecord[]>;
}

/**
 * Writes and removes records with their plans. The caller holds the sandbox's lock: two processes
 * never write under one key at the same time.
 *
 * What survives a power loss depends on the method, because durability costs milliseconds:
 *
 * - {@link create} precedes the first delegate of an ADD, and records every attachment that may
 *   have to be detached. It becomes durable while the delegates run. The runtime gets its answer
 *   afterwards. From that delegate on, the shim takes the plan on disk for the call's.
 * - {@link update} adds the results of the delegates, or what a rollback could not detach. It
 *   becomes durable shortly afterwards. A power loss before that leaves the old or the new content.
 *   The old one also detaches everything, without `prevResult`.
 * - {@link finish} is not made durable. A record that returns after a power loss is detached again
 *   by the next DEL or GC, which delegates accept (CNI 1.1.0 §4 "DEL").
 */
export interface RecordWriter {
  /**
   * Writes the record and plan of a sandbox interface that is about to be attached, and starts to
   * make them durable: `durable` resolves when they survive a power loss, or rejects with CniError
   * 5.
   * @throws CniError 5 when they cannot be written, or another process has stored the key meanwhile
   */
  create(
    record: AttachmentRecord,
    plan: TeardownPlan,
  ): Promise<{ readonly durable: Promise<void> }>;
  /**
   * Replaces record and plan; both are durable shortly afterwards, or after {@link flush}.
   * @throws CniError 5 when they cannot be written, or another process has finished the interface;
   *   11 when it has attached it again
   */
  update(record: AttachmentRecord, plan: TeardownPlan): Promise<void>;
  /** Makes every update durable if possible. Call it before the process ends. */
  flush(): Promise<void>;
  /**
   * Removes record and plan, if any; leaves a tombstone, with which the shim answers repeated DELs.
   * @param sandbox with a usable record, as it was read or created
   * @throws CniError 5 when they cannot be removed, 11 when there is a record of another ADD
   */
  finish(sandbox: RecordKey & Partial<AttachmentRecord>): Promise<void>;
  /**
   * Renames unusable record and plan, if any, so that they are ignored but can be examined.
   * @throws CniError 5 when they cannot be renamed, 11 when there is a usable record: another process has written it meanwhile
   */
  quarantine(key: RecordKey): Promise<void>;
  /** Why no record can be written now, as on a full file system; undefined if one can be. */
  problem(): Promise<string | undefined>;
}

/** What the engine and the shim, which may work without an engine, tell each other by files. */
export interface ShimFiles {
  /**
   * Writes the DELs of the default network for the shim, which executes them with the variables of
   * its call if a sandbox has no record and no engine answers. Durable when it resolves. Writes
   * only changes.
   * @throws CniError 5 when they cannot be written
   */
  keepDefaultPlan(calls: readonly DelegateCall[]): Promise<void>;
  /**
   * Keeps the shim from detaching the record without an engine, until the record is finished. Any
   * process may call it for any record, without the sandbox's lock.
   * @throws CniError 5 when the mark cannot be written
   */
  requireEngine(key: RecordKey): Promise<void>;
  /** Whether the interface was detached before. False when its tombstone is no longer kept. */
  hasTombstone(key: RecordKey): Promise<boolean>;
  /** Whether a shim operates on the sandbox, perhaps without an engine. */
  isLocked(containerId: string): Promise<boolean>;
}

/** The records of a pod's sandboxes, also of those whose DEL has begun. @throws Error if they cannot be listed */
export async function recordsOf(
  records: Pick<RecordReader, "list">,
  pod: ComparedPod,
): Promise<AttachmentRecord[]> {
  return (await records.list()).records.filter((record) => isOfPod(record, pod));
}
