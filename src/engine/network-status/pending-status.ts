import type { EngineDeps } from "#engine/call/deps.ts";
import type { PublishOutcome } from "#engine/ports.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { untilAborted } from "#lib/concurrency/deadline.ts";

/*
 * A network-status that an ADD could not publish in time stays in the record until it is published:
 * plexus-standalone ends with its call, and a daemon may be stopped before the API server is
 * available again.
 */

/** Annotations by name, as {@link AttachmentRecord.pendingStatus} keeps them. */
export type PendingStatus = NonNullable<AttachmentRecord["pendingStatus"]>;

/**
 * Records with a pending status, in random rotation: an unpublishable one must not block others.
 */
export async function recordsWithPendingStatus(
  deps: Pick<EngineDeps, "records">,
): Promise<AttachmentRecord[]> {
  const { records } = await deps.records.list();
  const pending = records.filter(({ pendingStatus }) => pendingStatus !== undefined);
  const first = Math.floor(Math.random() * pending.length);
  return [...pending.slice(first), ...pending.slice(0, first)];
}

/**
 * Publishes and removes a record's pending status; drops it if the pod has a newer sandbox.
 * The caller holds the sandbox's lock. The signal ends the wait for the API.
 * @returns `pending` when the API has not accepted it
 * @throws CniError when the record cannot be read or written
 */
export async function publishPendingStatus(
  deps: Pick<EngineDeps, "records" | "publisher">,
  key: Pick<AttachmentRecord, "containerId" | "ifName">,
  signal?: AbortSignal,
): Promise<PublishOutcome> {
  const { records, publisher } = deps;
  const record = await records.load(key);
  if (record?.pendingStatus === undefined) return "settled";
  if (record.pod !== undefined && !(await isReplaced(deps, record))) {
    const publishing = publisher.publish(record.pod, record.pendingStatus);
    const outcome = await untilAborted(publishing, signal).catch(() => "pending" as const);
    if (outcome === "pending") return outcome;
  }
  await forgetPendingStatus(deps, record);
  return "settled";
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
  published: AttachmentRecord,
): Promise<void> {
  const [record, plan] = [await records.load(published), await records.loadPlan(published)];
  if (record === undefined || plan === undefined) return;
  const { pendingStatus, ...withoutStatus } = record;
  if (JSON.stringify(pendingStatus) !== JSON.stringify(published.pendingStatus)) return;
  await records.update(withoutStatus, plan);
}

async function isReplaced(
  { records }: Pick<EngineDeps, "records">,
  { pod, createdAt }: AttachmentRecord,
): Promise<boolean> {
  const all = (await records.list()).records;
  return all.some(
    (each) =>
      each.pod?.namespace === pod?.namespace &&
      each.pod?.name === pod?.name &&
      each.createdAt > createdAt,
  );
}
