import type { EngineDeps } from "#engine/call/deps.ts";
import type { PublishOutcome } from "#engine/ports.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { untilAborted } from "#lib/concurrency/deadline.ts";

/*
 * A status annotation that could not be written while its ADD lasted is in the record until it is.
 * plexus-standalone ends with its call, and a daemon may be stopped before the API server is back.
 */

/** Annotations by name, as {@link AttachmentRecord.pendingStatus} keeps them. */
export type PendingStatus = NonNullable<AttachmentRecord["pendingStatus"]>;

/**
 * The records whose status is still to be published, from a random one on: a status that can never be written
 * does not keep the same others waiting each time.
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
 * Publishes what the record of a sandbox interface still has to be published, and notes that it is
 * done. Of a pod that has been given another sandbox since, the old status is dropped. The caller holds
 * the sandbox's lock.
 * @param signal ends the wait for the API
 * @returns `pending` when the API has not taken it
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

/** Another process may have served a call for the sandbox while the status was written: its record counts. */
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

/** Whether the pod has a later sandbox, whose status counts. */
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
