import type { CallContext, EngineDeps } from "#engine/deps.ts";
import type { AttachmentRecord } from "#engine/record.ts";
import { updateRecord } from "#engine/update-record.ts";

/*
 * A status annotation that could not be written while its ADD lasted is in the record until it is.
 * plexus-standalone ends with its call, and a daemon may be stopped before the API server is back.
 */

/** Annotations by name, as {@link AttachmentRecord.pendingStatus} keeps them. */
export type PendingStatus = NonNullable<AttachmentRecord["pendingStatus"]>;

/**
 * Notes in the record of an ADD what is still to be published. Never rejects: the pod is attached,
 * and the write may succeed yet.
 */
export async function recordPendingStatus(
  ctx: CallContext,
  record: AttachmentRecord,
  pendingStatus: PendingStatus | undefined,
): Promise<void> {
  if (pendingStatus === undefined) return;
  try {
    await updateRecord(ctx, { ...record, pendingStatus });
  } catch (error) {
    ctx.logger.warn({ err: error }, "the status that is still to be written is not recorded");
  }
}

/** The records whose status is still to be published. */
export async function recordsWithPendingStatus(
  deps: Pick<EngineDeps, "records">,
): Promise<AttachmentRecord[]> {
  const { records } = await deps.records.list();
  return records.filter(({ pendingStatus }) => pendingStatus !== undefined);
}

/**
 * Publishes what the record of a sandbox interface still has to be published, and notes that it is
 * done. Of a pod that has been given another sandbox since, the old status is dropped. The caller holds
 * the sandbox's lock.
 * @throws CniError when the record cannot be read or written
 */
export async function publishPendingStatus(
  deps: Pick<EngineDeps, "records" | "publisher">,
  key: Pick<AttachmentRecord, "containerId" | "ifName">,
): Promise<void> {
  const { records, publisher } = deps;
  const [record, plan] = [await records.load(key), await records.loadPlan(key)];
  if (record?.pendingStatus === undefined || plan === undefined) return;
  const { pendingStatus, ...withoutStatus } = record;
  if (record.pod !== undefined && !(await isReplaced(deps, record))) {
    const outcome = await publisher.publish(record.pod, pendingStatus);
    if (outcome === "pending") return;
  }
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
