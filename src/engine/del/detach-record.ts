import type { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { netnsOfRecord } from "#engine/del/chain/netns.ts";
import { combineErrors } from "#engine/del/failures.ts";
import type { StoredRecord } from "#engine/record/teardown-plan.ts";
import type { TimeBudget } from "#lib/concurrency/time-budget.ts";
import { detachAll, type SandboxToDetach } from "./detach.ts";
import { attachmentsToDetach, type DetachableAttachment, detachables } from "./planned-dels.ts";
import { TeardownProgress } from "./teardown-progress.ts";

/**
 * Detaches a record's attachments, removes each of them when it is detached, and finishes it.
 * @throws CniError when something is left, which the record then says; 102 for several networks
 */
export async function detachRecord(
  ctx: CallContext,
  stored: StoredRecord,
  sandbox: Pick<SandboxToDetach, "netns" | "path" | "budget" | "isOfOthers">,
): Promise<void> {
  const { record } = stored;
  const mayNeedDel = new Set(attachmentsToDetach(record, ctx.deps.bootId()));
  const owed = detachables(stored).filter(({ attachment }) => mayNeedDel.has(attachment));
  // Its shim has not locked a sandbox of others, so another process may change the record.
  const progress = new TeardownProgress(ctx, { record, owed }, sandbox.isOfOthers === true);
  const onDetached = (each: DetachableAttachment): void => progress.detached(each);
  const failures = await detachAll(ctx, { ...sandbox, record, onDetached }, owed);
  if (failures.length === 0) return progress.finish();
  const error = notDetached(failures.map((failure) => failure.error));
  await progress.fail(error, failures);
  throw error;
}

/** Detaches a sandbox that is not the call's, with its status. @throws CniError as {@link detachRecord} */
export async function detachRecordOfOthers(
  ctx: CallContext,
  stored: StoredRecord,
  options: { readonly path: readonly string[]; readonly budget: TimeBudget },
): Promise<void> {
  const netns = await netnsOfRecord(ctx, stored.record);
  await detachRecord(ctx, stored, { ...options, netns, isOfOthers: true });
  const { pod } = stored.record;
  if (pod !== undefined) await ctx.deps.publisher.detached(pod);
}

/** The error of a DEL for which networks could not be detached. */
export function notDetached(errors: readonly CniError[]): CniError {
  return combineErrors(errors, `${errors.length} networks could not be detached and stay recorded`);
}
