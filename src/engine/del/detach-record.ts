import type { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { combineErrors } from "#engine/call/failures.ts";
import { netnsOfRecord } from "#engine/del/chain/netns.ts";
import { attachmentsToDetach } from "#engine/record/record.ts";
import { detachables, type StoredRecord } from "#engine/record/teardown-plan.ts";
import type { TimeBudget } from "#lib/concurrency/time-budget.ts";
import { detachAll, type SandboxToDetach } from "./detach.ts";
import { TeardownProgress } from "./teardown-progress.ts";

/** How a record is detached. */
interface DetachRecordOptions extends Pick<SandboxToDetach, "netns" | "path" | "budget"> {
  /**
   * The sandbox is not the call's. Its shim has not locked it, so another process may change the
   * record, whose version is then kept. There will be other attempts, so each gives its time to
   * another attachment first.
   * @default false
   */
  readonly isOfOthers?: boolean;
}

/**
 * Detaches a record's attachments, removes each of them when it is detached, and finishes it.
 * @throws CniError when something is left, which the record then says; 102 for several networks
 */
export async function detachRecord(
  ctx: CallContext,
  stored: StoredRecord,
  { isOfOthers = false, ...sandbox }: DetachRecordOptions,
): Promise<void> {
  const { record } = stored;
  const first = isOfOthers ? (record.teardown?.attempts ?? 0) : undefined;
  const mayNeedDel = new Set(attachmentsToDetach(record, ctx.deps.bootId()));
  const owed = detachables(stored).filter(({ attachment }) => mayNeedDel.has(attachment));
  const progress = new TeardownProgress(ctx, { record, owed }, isOfOthers);
  const toDetach: SandboxToDetach = {
    ...{ ...sandbox, record, first, ownPath: isOfOthers ? undefined : sandbox.path },
    onDetached: (each) => progress.detached(each),
  };
  const failures = await detachAll(ctx, toDetach, owed);
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
