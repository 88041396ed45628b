import { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import type { SandboxLocks } from "#engine/call/sandbox-locks.ts";
import { detachRecordOfOthers } from "#engine/del/detach-record.ts";
import { collectErrors } from "#engine/del/failures.ts";
import { detachDamaged } from "#engine/del/recovery/damaged.ts";
import { byLastFailure, markOver } from "#engine/leftovers/leftover.ts";
import type { RecordList } from "#engine/ports/records.ts";
import { type AttachmentRecord, isOfSameAdd, mayRun } from "#engine/record/record.ts";
import { TimeBudget } from "#lib/concurrency/time-budget.ts";

/** For detaching stale sandboxes, while the runtime waits. Retries of leftovers do the rest. */
const budgetMs = 5000;

/** Marks records as leftovers: they are detached even if this call fails. The next GC retries. */
export async function markStale(ctx: CallContext, { records }: RecordList): Promise<void> {
  const reason = "the container runtime's garbage collection did not list its sandbox";
  for (const record of records.filter(mayRun)) {
    // What cannot be read is an error of its teardown.
    const stored = await ctx.deps.records.load(record).catch(() => undefined);
    if (stored && isOfSameAdd(stored.record, record)) await markOver(ctx, stored, reason);
  }
}

/**
 * Detaches stale sandboxes for a few seconds, concurrently with other operations: never retried
 * ones first, then by the last failure. Leaves out those on which another operation runs, such as a GC
 * that continues when its shim has gone.
 * @returns the errors; one has the number of sandboxes that were not reached
 * @throws HostGoneError when the shim has gone
 */
export async function detachStale(
  ctx: CallContext,
  { records, damaged }: RecordList,
  { path, locks }: { readonly path: readonly string[]; readonly locks: SandboxLocks },
): Promise<CniError[]> {
  const budget = new TimeBudget(ctx.deps.clock, budgetMs);
  const detachListed = async (listed: AttachmentRecord): Promise<void> => {
    const stored = await ctx.deps.records.load(listed);
    // Another process may have detached or replaced it meanwhile.
    if (stored === undefined || !isOfSameAdd(stored.record, listed)) return;
    await detachRecordOfOthers(ctx, stored, { path, budget });
  };
  const steps = [
    ...byLastFailure(records).map((of) => ({ of, step: () => detachListed(of) })),
    ...damaged.map((of) => ({ of, step: () => detachDamaged(ctx, of, { path, budget }) })),
  ];
  let notReached = 0;
  const errors = await collectErrors(steps, async ({ of, step }) => {
    using sandbox = locks.tryAcquire(of.containerId);
    if (sandbox === undefined) return;
    if (budget.remainingMs >= 1) await step();
    else notReached++;
  });
  if (notReached === 0) return errors;
  const message = `${notReached} stale sandboxes were not reached in ${budgetMs / 1000} s; plexusd detaches them later`;
  return [...errors, new CniError("TryAgainLater", message)];
}
