import type { CallContext } from "#engine/call/deps.ts";
import { detachAll } from "#engine/del/detach.ts";
import { type PendingStatus, statusOfRecord } from "#engine/network-status/publish-status.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import {
  type DetachableAttachment,
  detachables,
  recordWithPlan,
  type StoredRecord,
} from "#engine/record/teardown-plan.ts";

/**
 * Records that attachments are about to be removed: one that was detached, but not yet taken from
 * the record, must not count as attached when plexusd starts again.
 * @throws CniError 5
 */
export async function markRemovals(
  ctx: CallContext,
  stored: StoredRecord,
  removals: readonly RecordedAttachment[],
): Promise<void> {
  const names = new Set(removals.map(({ ifName }) => ifName));
  const all = detachables(stored).map((each) =>
    names.has(each.attachment.ifName) ? asRemoving(each) : each,
  );
  await saveAttachments(ctx, stored.record, all);
}

function asRemoving({ attachment, dels }: DetachableAttachment): DetachableAttachment {
  return { attachment: { ...attachment, hotPlug: "removing" }, dels };
}

/**
 * Detaches one network of a running sandbox, and takes it from the record.
 * @returns the status to publish
 * @throws CniError when it could not be detached, and stays recorded; HostGoneError when the agent
 *   has gone
 */
export async function unplug(
  ctx: CallContext,
  stored: StoredRecord,
  { ifName, path }: { readonly ifName: string; readonly path: readonly string[] },
): Promise<PendingStatus> {
  const { record } = stored;
  const all = detachables(stored);
  const unplugged = all.filter(({ attachment }) => attachment.ifName === ifName);
  const [failure] = await detachAll(ctx, { ...record, path }, unplugged);
  if (failure !== undefined) throw failure.error;
  const left = all.filter((each) => !unplugged.includes(each));
  const attachments = left.map(({ attachment }) => attachment);
  const pendingStatus = await statusOfRecord(ctx, { ...record, attachments });
  await saveAttachments(ctx, { ...record, pendingStatus }, left);
  return pendingStatus;
}

/** Writes the record of a sandbox with these attachments. @throws CniError 5 */
export async function saveAttachments(
  ctx: CallContext,
  sandbox: Omit<AttachmentRecord, "attachments">,
  all: readonly DetachableAttachment[],
): Promise<void> {
  const { record, plan } = recordWithPlan(sandbox, all);
  await ctx.deps.records.update(record, plan);
}
