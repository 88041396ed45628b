import type { CallContext } from "#engine/deps.ts";
import { detachAll } from "#engine/detach/detach.ts";
import type { AttachmentRecord } from "#engine/record.ts";
import { teardownPlan } from "#engine/teardown-plan.ts";
import { type AttachProgress, withProgress } from "./attachment-record.ts";

/**
 * Detaches what an ADD has attempted, last first. The record is removed when all of it is detached;
 * otherwise it is reduced to the attempted attachments, for a later DEL. Failures are logged only,
 * as the runtime gets the error for which the ADD is rolled back.
 * @throws HostGoneError when the shim has gone: the record then still names every attachment
 */
export async function rollBack(
  ctx: CallContext,
  record: AttachmentRecord,
  progress: AttachProgress,
): Promise<void> {
  const attachments = withProgress(record, progress).attachments.slice(0, progress.attempted);
  const failures = await detachAll(ctx, record, attachments);
  for (const { item: attachment, error } of failures) {
    const fields = { err: error, network: attachment.displayName };
    ctx.logger.error(fields, "the attachment could not be rolled back and stays recorded");
  }
  const { records } = ctx.deps;
  try {
    if (failures.length === 0) return await records.finish(record);
    const remaining = { ...record, attachments };
    await records.update(remaining, teardownPlan(remaining, ctx.config.delegateTimeoutMs));
  } catch (error) {
    ctx.logger.error({ err: error }, "the attachment record could not be updated after a rollback");
  }
}
