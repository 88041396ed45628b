import { type CniError, CniErrorCode } from "#cni/error.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { collectErrors } from "#engine/call/failures.ts";
import { detachChain } from "#engine/del/chain/chain-teardown.ts";
import { delBudget, withPath } from "#engine/del/detach.ts";
import { notDetached } from "#engine/del/detach-record.ts";
import { loadStored, type Stored } from "#engine/del/stored.ts";
import {
  plannedNetwork,
  type StoredRecord,
  stepsToReplay,
  type TeardownPlan,
} from "#engine/record/teardown-plan.ts";
import { errorMessage } from "#lib/error-message.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import { detachConfigured } from "./configured.ts";
import { detachByMultusFiles } from "./multus.ts";
import type { UnrecordedSandbox } from "./unrecorded-sandbox.ts";

/**
 * Detaches a sandbox whose record is absent or unusable, by the first of these that exists:
 * 1. its teardown plan, which is complete;
 * 2. its tombstone, which says that it was detached: nothing is executed;
 * 3. the files of Multus, which may have attached it;
 * 4. the current default network, with what the runtime passes, for a pod that was attached before
 *   Plexus was installed: its address must not leak. Our list has the primary network's name, so
 *   libcni passes the cached result. The further `delegates` get their DELs first. Addresses of
 *   networks that the pod requested stay allocated if record and plan are lost.
 *
 * Damaged files are renamed, because otherwise the sandbox could never be deleted. Files that
 * cannot be read now are an error, because they may be readable later.
 * @returns whether the sandbox was attached, as far as is known: libcni caches the result of an ADD
 *   until a DEL succeeds
 * @throws CniError when something could not be detached; the call can be repeated
 */
export async function detachUnrecorded(
  ctx: CallContext,
  sandbox: UnrecordedSandbox,
  record: Exclude<Stored<StoredRecord>, { state: "usable" }>,
): Promise<boolean> {
  const plan = await loadStored(() => ctx.deps.records.loadPlan(sandbox));
  if (plan.state === "usable") {
    await replay(ctx, sandbox, plan.value);
    await ctx.deps.records.finish(sandbox);
    const fields = record.state === "unusable" ? { err: record.error } : {};
    ctx.logger.warn(fields, "no usable record: detached by the teardown plan");
    return true;
  }
  const errors = [record, plan].flatMap((each) => (each.state === "unusable" ? each.error : []));
  const wasDamaged = errors.length > 0;
  if (wasDamaged) await putAside(ctx, sandbox, errors);
  if (!wasDamaged && (await ctx.deps.records.hasTombstone(sandbox))) return false;
  if (await detachByMultusFiles(ctx, sandbox)) return true;
  await detachConfigured(ctx, sandbox);
  return wasDamaged || sandbox.prevResult !== undefined;
}

/** @throws CniError when a file is not damaged, but cannot be read at the moment */
async function putAside(
  ctx: CallContext,
  key: RecordKey,
  errors: readonly CniError[],
): Promise<void> {
  const unreadable = errors.find((error) => error.code !== CniErrorCode.DecodingFailure);
  if (unreadable !== undefined) throw unreadable;
  await ctx.deps.records.quarantine(key);
  const message =
    "record and teardown plan are unusable and were renamed: networks that cannot be found otherwise " +
    "may keep addresses allocated";
  const err = new AggregateError(errors, errors.map(errorMessage).join("; "));
  ctx.logger.error({ err }, message);
}

/** Executes the DELs of a plan; the attachments get equal shares of the time. */
async function replay(
  ctx: CallContext,
  sandbox: UnrecordedSandbox,
  plan: TeardownPlan,
): Promise<void> {
  const steps = stepsToReplay(plan, ctx.deps.bootId());
  const chains = [...Map.groupBy(steps, ({ group }) => group).values()];
  const { budget = delBudget(ctx) } = sandbox;
  let left = chains.length;
  const errors = await collectErrors(chains, async (chain) => {
    const calls = chain.map(({ call }) => withPath(call, sandbox.path));
    const { name: network, ifName } = plannedNetwork(calls[0] as DelegateCall);
    const own = { network, ifName, netns: sandbox.netns, calls, budget: budget.share(left--) };
    await detachChain(ctx, own);
  });
  if (errors.length > 0) throw notDetached(errors);
}
