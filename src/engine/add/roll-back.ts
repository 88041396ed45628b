import type { CallContext } from "#engine/call/deps.ts";
import type { Failure } from "#engine/call/failures.ts";
import { detachAll } from "#engine/del/detach.ts";
import { failingSince } from "#engine/del/teardown-progress.ts";
import { reportLeftover } from "#engine/leftovers/report-leftover.ts";
import type {
  AttachmentRecord,
  FailedTeardown,
  RecordedAttachment,
} from "#engine/record/record.ts";
import { updateRecord } from "#engine/record/update-record.ts";
import { type AttachProgress, withProgress } from "./attachment-record.ts";

/**
 * Detaches what an ADD has attempted, last first. The record is finished when all of it is detached;
 * otherwise it is reduced to what is left, for a later DEL. Failures are logged only, as the runtime
 * gets the error for which the ADD is rolled back.
 * @throws HostGoneError when the shim has gone: the record then still names every attachment
 */
export async function rollBack(
  ctx: CallContext,
  record: AttachmentRecord,
  progress: AttachProgress,
): Promise<void> {
  const attachments = withProgress(record, progress).attachments.slice(0, progress.attempted);
  if (progress.failedAdd !== undefined) await noteFailedAdd(ctx, { ...record, attachments });
  const failures = await detachAll(ctx, record, attachments);
  for (const { item: attachment, error } of failures) {
    const fields = { err: error, network: attachment.displayName };
    ctx.logger.error(fields, "the attachment could not be rolled back and stays recorded");
  }
  try {
    if (failures.length === 0) return await ctx.deps.records.finish(record);
    const lastError = failures.map(({ error }) => error.message).join("; ");
    reportLeftover(ctx, record, lastError);
    const failedAt = ctx.deps.now();
    const since = failingSince(ctx.deps, record);
    const teardown = { firstFailedAt: failedAt, since, failedAt, attempts: 1, lastError };
    await updateRecord(ctx, notRolledBack({ ...record, attachments }, failures, teardown));
  } catch (error) {
    ctx.logger.error({ err: error }, "the attachment record could not be updated after a rollback");
  }
}

/** Notes how the ADD failed before anything else can: without that only the record's reader could say that nothing is attached. */
async function noteFailedAdd(ctx: CallContext, record: AttachmentRecord): Promise<void> {
  try {
    await updateRecord(ctx, record);
  } catch (error) {
    ctx.logger.warn({ err: error }, "the failure of the ADD could not be recorded");
  }
}

/** The record of the attachments that are left, with the reason why they are. */
function notRolledBack(
  record: AttachmentRecord,
  failures: readonly Failure<RecordedAttachment>[],
  teardown: FailedTeardown,
): AttachmentRecord {
  const left = new Set(failures.map(({ item }) => item));
  return {
    ...record,
    attachments: record.attachments.filter((attachment) => left.has(attachment)),
    teardown,
  };
}
