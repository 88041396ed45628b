import type { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { detachAll } from "#engine/del/detach.ts";
import { notDetached } from "#engine/del/detach-record.ts";
import { emitLeftover, failedTeardown } from "#engine/del/failed-teardown.ts";
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
  // Otherwise later DELs cannot tell a failed attachment from a partial one, after a crash.
  if (attempted.some(({ attachment }) => attachment.failedAdd !== undefined))
    await record.update().catch((err: unknown) => {
      logger.warn({ err }, "cannot record the failure of the ADD");
    });
  const attachments = attempted.map(({ attachment }) => attachment);
  const toDetach = { record: { ...sandbox, attachments }, netns: sandbox.netns, isRunning };
  const failures = await detachAll(ctx, toDetach, attempted);
  const errors = failures.map(({ error }) => error);
  try {
    record.keepOnly(failures.map(({ left }) => left));
    if (isRunning) await record.update();
    else if (errors.length === 0) await deps.records.finish(sandbox);
    else {
      const error = notDetached(errors);
      emitLeftover(ctx, sandbox, error.message);
      await record.update({ teardown: failedTeardown(deps, sandbox, error) });
    }
  } catch (error) {
    logger.error({ err: error }, "cannot update the attachment record after a rollback");
  }
  return errors;
}
