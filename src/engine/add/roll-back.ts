import type { CallContext } from "#engine/call/deps.ts";
import { detachAll } from "#engine/del/detach.ts";
import { emitLeftover, failedTeardown } from "#engine/del/failed-teardown.ts";
import type { DetachableAttachment } from "#engine/record/teardown-plan.ts";
import type { AddRecord } from "./add-record.ts";

/**
 * Detaches what an ADD has attempted, last first, and finishes the record, or keeps what is left
 * for a later DEL. Failures are only logged: the runtime gets the error of the ADD.
 * @throws HostGoneError when the shim has gone: the record then still names every attachment
 */
export async function rollBack(ctx: CallContext, record: AddRecord): Promise<void> {
  const { attempted, sandbox } = record;
  await recordFailedAdd(ctx, record, attempted);
  const failures = await detachAll(ctx, sandbox, attempted);
  for (const { item, error } of failures) {
    const fields = { err: error, network: item.attachment.displayName };
    ctx.logger.error(fields, "cannot roll back the attachment, which stays recorded");
  }
  try {
    if (failures.length === 0) return await ctx.deps.records.finish(sandbox);
    const message = failures.map(({ error }) => error.message).join("; ");
    emitLeftover(ctx, sandbox, message);
    const teardown = failedTeardown(ctx.deps, sandbox, {
      message,
      reason: failures[0]?.error.reason,
    });
    await record.update({ only: failures.map(({ item }) => item), teardown });
  } catch (error) {
    ctx.logger.error({ err: error }, "cannot update the attachment record after a rollback");
  }
}

/** Records the ADD's error first: otherwise later DELs cannot tell it from a partial attachment. */
async function recordFailedAdd(
  ctx: CallContext,
  record: AddRecord,
  attempted: readonly DetachableAttachment[],
): Promise<void> {
  if (attempted.every(({ attachment }) => attachment.failedAdd === undefined)) return;
  try {
    await record.update({ only: attempted });
  } catch (error) {
    ctx.logger.warn({ err: error }, "cannot record the failure of the ADD");
  }
}
