import { isDeepStrictEqual } from "node:util";
import type { CallContext, EngineDeps } from "#engine/call/deps.ts";
import type { SandboxLocks } from "#engine/call/sandbox-locks.ts";
import { signOfBoot } from "#engine/call/signs-of-life.ts";
import type { PublishOutcome } from "#engine/ports.ts";
import { type AttachmentRecord, byAge, type RecordKey } from "#engine/record/record.ts";
import { untilAborted } from "#lib/concurrency/deadline.ts";

/*
 * A network-status that an ADD has not published stays in the record until it is published: the
 * process may end before, and the API server may be unavailable.
 */

/** Annotations by name, as {@link AttachmentRecord.pendingStatus} keeps them. */
export type PendingStatus = NonNullable<AttachmentRecord["pendingStatus"]>;

/**
 * Records with a pending status, in random rotation: an unpublishable one must not block others.
 */
export async function recordsWithPendingStatus(
  deps: Pick<EngineDeps, "records">,
): Promise<AttachmentRecord[]> {
  const { records } = await deps.records.list({ containing: '"pendingStatus"' });
  const pending = records.filter(({ pendingStatus }) => pendingStatus !== undefined);
  const first = Math.floor(Math.random() * pending.length);
  return [...pending.slice(first), ...pending.slice(0, first)];
}

/**
 * Publishes and removes a record's pending status; drops it if the pod has a newer sandbox, or the
 * sandbox's DEL has begun.
 * The caller holds the sandbox's lock. The signal ends the wait for the API.
 * @returns `pending` when the API has not accepted it
 * @throws CniError when the record cannot be read or written
 */
export async function publishPendingStatus(
  deps: Pick<EngineDeps, "records" | "publisher" | "bootId">,
  key: Pick<AttachmentRecord, "containerId" | "ifName">,
  signal?: AbortSignal,
): Promise<PublishOutcome> {
  const { records, publisher } = deps;
  const record = (await records.load(key))?.record;
  if (record?.pendingStatus === undefined) return "settled";
  if (record.pod !== undefined && (await isLatest(deps, record))) {
    const publishing = publisher.publish(record.pod, record.pendingStatus);
    const outcome = await untilAborted(publishing, signal).catch(() => "pending" as const);
    if (outcome === "pending") return outcome;
  }
  await forgetPendingStatus(deps, record, record.pendingStatus);
  return "settled";
}

/**
 * Publishes the pending status of an ADD when the runtime has its answer, and then removes it from
 * the record. A DEL in between withdraws it: the caller holds the sandbox's lock. Never rejects.
 */
export async function publishAfterAnswer(
  { deps, answered, logger }: CallContext,
  sandbox: Pick<AttachmentRecord, keyof RecordKey | "pod">,
  { status, locks }: { readonly status: PendingStatus | undefined; readonly locks: SandboxLocks },
): Promise<void> {
  const { containerId, pod } = sandbox;
  if (pod === undefined || status === undefined) return;
  const publish = async (): Promise<PublishOutcome> => {
    await answered;
    // A process that was stopped learns from the record whether its ADD has failed meanwhile.
    const stored = await deps.records.load(sandbox);
    if (stored === undefined || !(await isLatest(deps, stored.record))) return "pending";
    return deps.publisher.publish(pod, status, { after: answered });
  };
  const forget = async (outcome: PublishOutcome): Promise<void> => {
    if (outcome === "pending") return;
    using _lock = await locks.acquire(containerId);
    await forgetPendingStatus(deps, sandbox, status);
  };
  await publish()
    .then(forget)
    .catch((error: unknown) => {
      logger.warn({ err: error }, "cannot record that the network-status is published");
    });
}

/**
 * Drops the status of a pod whose sandbox is detached, unless another sandbox of the pod is
 * recorded: after a reboot, the runtime deletes the old sandbox last. Never rejects.
 */
export async function withdrawStatus(
  { records, publisher }: Pick<EngineDeps, "records" | "publisher">,
  pod: { readonly namespace: string; readonly name: string } | undefined,
): Promise<void> {
  if (pod !== undefined && !(await records.hasPod(pod))) await publisher.withdraw(pod);
}

/** Keeps the record of another process that served a call for the sandbox meanwhile. */
async function forgetPendingStatus(
  { records }: Pick<EngineDeps, "records">,
  key: RecordKey,
  published: PendingStatus,
): Promise<void> {
  const stored = await records.load(key);
  if (stored === undefined) return;
  const { pendingStatus, ...withoutStatus } = stored.record;
  if (JSON.stringify(pendingStatus) !== JSON.stringify(published)) return;
  await records.update(withoutStatus, stored.plan);
}

/** Whether the sandbox is the pod's latest one, and its DEL has not begun. */
export async function isLatest(
  deps: Pick<EngineDeps, "records" | "bootId">,
  record: AttachmentRecord,
): Promise<boolean> {
  const { records } = deps;
  const { pod, containerId, teardown } = record;
  if (teardown !== undefined) return false;
  if (pod === undefined) return true;
  const latest = records.latestOf(pod);
  if (latest !== undefined) return latest.containerId === containerId;
  const all = (await records.list({ containing: JSON.stringify(pod.name) })).records;
  return !all.some(
    (each) =>
      isDeepStrictEqual(each.pod, pod) &&
      signOfBoot(each, deps) === undefined &&
      byAge(each, record) > 0,
  );
}
