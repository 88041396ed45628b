import { CniErrorCode } from "#cni/error.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { detachChain } from "#engine/del/chain/chain-teardown.ts";
import { delBudget, withPath } from "#engine/del/detach.ts";
import { notDetached } from "#engine/del/detach-record.ts";
import { collectErrors } from "#engine/del/failures.ts";
import { plannedNetwork, stepsToReplay } from "#engine/del/planned-dels.ts";
import type { DamagedRecord } from "#engine/ports/records.ts";
import type { TeardownPlan } from "#engine/record/teardown-plan.ts";
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
 * A damaged file is renamed, because otherwise the sandbox could never be deleted. One that cannot
 * be read now is an error, because it may be readable later.
 * @returns whether the sandbox was attached, as far as is known: libcni caches the result of an ADD
 *   until a DEL succeeds
 * @throws CniError when something could not be detached; the call can be repeated
 */
export async function detachUnrecorded(
  ctx: CallContext,
  sandbox: UnrecordedSandbox,
  damaged: DamagedRecord | undefined,
): Promise<boolean> {
  const { records } = ctx.deps;
  if (damaged?.plan !== undefined) {
    await replay(ctx, sandbox, damaged.plan);
    await records.finish(sandbox);
    ctx.logger.warn({ err: damaged.error }, "no usable record: detached by the teardown plan");
    return true;
  }
  if (damaged !== undefined) await putAside(ctx, damaged);
  else if (await records.hasTombstone(sandbox)) return false;
  if (await detachByMultusFiles(ctx, sandbox)) return true;
  await detachConfigured(ctx, sandbox);
  return damaged !== undefined || sandbox.prevResult !== undefined;
}

/** @throws CniError when the file is not damaged, but cannot be read at the moment */
async function putAside(ctx: CallContext, damaged: DamagedRecord): Promise<void> {
  const { error } = damaged;
  if (error.code !== CniErrorCode.DecodingFailure) throw error;
  await ctx.deps.records.quarantine(damaged);
  const message =
    "record and teardown plan are unusable and were renamed: networks that cannot be found otherwise " +
    "may keep addresses allocated";
  ctx.logger.error({ err: error }, message);
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
