import type { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { detachAll } from "#engine/del/detach.ts";
import { emitLeftover, failedTeardown } from "#engine/del/failed-teardown.ts";
import type { DetachableAttachment } from "#engine/record/teardown-plan.ts";
import type { AddRecord } from "./add-record.ts";

/**
 * Detaches what an ADD has attempted, last first, and finishes the record, or keeps what is left
 * for a later DEL. In a running sandbox, what is left is owed.
 * @returns why something is left: the caller gets the error of the ADD
 * @throws HostGoneError when the shim has gone: the record then still names every attachment
 */
export async function rollBack(ctx: CallContext, record: AddRecord): Promise<readonly CniError[]> {
  const { attempted, sandbox, isRunning } = record;
  const { deps, logger } = ctx;
  record.keepOnly(attempted);
  await recordFailedAdd(ctx, record, attempted);
  const attachments = attempted.map(({ attachment }) => attachment);
  const toDetach = { record: { ...sandbox, attachments }, netns: sandbox.netns, isRunning };
  const failures = await detachAll(ctx, toDetach, attempted);
  const errors = failures.map(({ error }) => error);
  try {
    if (errors.length === 0 && !isRunning) {
      await deps.records.finish(sandbox);
      return errors;
    }
    record.keepOnly(failures.map(({ left }) => left));
    if (isRunning) {
      await record.update();
      return errors;
    }
    const message = errors.map((error) => error.message).join("; ");
    emitLeftover(ctx, sandbox, message);
    const { reason } = errors[0] ?? {};
    await record.update({ teardown: failedTeardown(deps, sandbox, { message, reason }) });
  } catch (error) {
    logger.error({ err: error }, "cannot update the attachment record after a rollback");
  }
  return errors;
}

/** Records the ADD's error first: otherwise later DELs cannot tell it from a partial attachment. */
async function recordFailedAdd(
  ctx: CallContext,
  record: AddRecord,
  attempted: readonly DetachableAttachment[],
): Promise<void> {
  if (attempted.every(({ attachment }) => attachment.failedAdd === undefined)) return;
  try {
    await record.update();
  } catch (error) {
    ctx.logger.warn({ err: error }, "cannot record the failure of the ADD");
  }
}
