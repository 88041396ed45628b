import { mergeCniArgs } from "#cni/args.ts";
import { CniError, CniErrorCode } from "#cni/error.ts";
import { delCalls } from "#cni/runtime/chain.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { collectErrors } from "#engine/call/failures.ts";
import { detachChain } from "#engine/del/chain-teardown.ts";
import type { ChainToDetach } from "#engine/del/chain-to-detach.ts";
import { delBudget } from "#engine/del/detach.ts";
import { notDetached } from "#engine/del/detach-record.ts";
import { loadStored, type Stored, type Unusable } from "#engine/del/stored.ts";
import { defaultNetwork } from "#engine/plan/default-network.ts";
import {
  type ResolvedNetwork,
  runtimeConf,
  withNetworkContext,
} from "#engine/plan/planned-attachment.ts";
import { delegateSearchPath, extendedPath } from "#engine/plan/search-path.ts";
import type { AttachmentRecord, RecordKey } from "#engine/record/record.ts";
import { plannedNetwork, stepsToReplay, type TeardownPlan } from "#engine/record/teardown-plan.ts";
import type { ForeignSandbox } from "./foreign-sandbox.ts";
import { detachByAnnotation, takeOverFromMultus } from "./take-over.ts";

/**
 * Detaches a sandbox whose record is absent or unusable: by its teardown plan, which is complete. Without a
 * plan, by the files of Multus, which may have attached it; else, where something says that there are
 * further networks, by its pod's annotation. Otherwise, and for a sandbox that was detached before, only the
 * default network gets a DEL, with its present configuration and what the runtime hands over. A pod that was attached before Plexus was installed has
 * neither record nor plan, and its address must not leak; plugins answer a DEL for an attachment that they
 * do not know with success (CNI 1.1.0 §4 "DEL"). As our list has the primary network's name, libcni gives us
 * the result that it has cached of such a pod.
 *
 * Damaged files are put aside, as otherwise the sandbox could never be deleted. Files that cannot
 * be read now may be readable later: that is an error.
 * @throws CniError when something could not be detached; the call can be repeated
 */
export async function detachUnrecorded(
  ctx: CallContext,
  sandbox: ForeignSandbox,
  record: Exclude<Stored<AttachmentRecord>, { state: "usable" }>,
): Promise<void> {
  const plan = await loadStored(() => ctx.deps.records.loadPlan(sandbox));
  if (plan.state === "usable") {
    await replay(ctx, sandbox, plan.value);
    await ctx.deps.records.finish(sandbox);
    const fields = record.state === "unusable" ? { err: record.error } : {};
    ctx.logger.warn(fields, "no usable record: detached by the teardown plan");
    return;
  }
  const unusable = [record, plan].filter((each) => each.state === "unusable");
  const wasDamaged = unusable.length > 0;
  if (wasDamaged) await putAside(ctx, sandbox, unusable);
  // A tombstone says that everything was detached; what a plugin left in the namespace proves nothing.
  const isLost = wasDamaged || !(await ctx.deps.records.hasTombstone(sandbox));
  if (isLost && (await takeOverFromMultus(ctx, sandbox))) return;
  if (isLost && (await detachByAnnotation(ctx, sandbox, { wasDamaged }))) return;
  await delDefaultNetwork(ctx, sandbox);
}

/** @throws CniError when a file is not damaged, but cannot be read at the moment */
async function putAside(
  ctx: CallContext,
  key: RecordKey,
  files: readonly Unusable[],
): Promise<void> {
  const errors = files.map((file) => file.error);
  const unreadable = errors.find((error) => error.code !== CniErrorCode.DecodingFailure);
  if (unreadable !== undefined) throw unreadable;
  await ctx.deps.records.quarantine(key);
  const message =
    "record and teardown plan are unusable and were put aside: networks that cannot be found otherwise " +
    "may keep addresses allocated";
  ctx.logger.error({ err: new AggregateError(errors, message) }, message);
}

/** Executes the DELs of a plan; the attachments get equal shares of the time. */
async function replay(
  ctx: CallContext,
  sandbox: ForeignSandbox,
  plan: TeardownPlan,
): Promise<void> {
  const steps = stepsToReplay(plan, ctx.deps.bootId());
  const chains = [...Map.groupBy(steps, ({ group }) => group).values()];
  const budget = delBudget(ctx);
  let left = chains.length;
  const errors = await collectErrors(chains, async (chain) => {
    const calls = chain.map(({ call }) => withPath(call, sandbox.path));
    await detachCalls(ctx, sandbox, { calls, budget: budget.share(left--) });
  });
  if (errors.length > 0) throw notDetached(errors);
}

/** Detaches the attachment that planned calls are about. */
async function detachCalls(
  ctx: CallContext,
  { netns }: ForeignSandbox,
  { calls, budget }: Pick<ChainToDetach, "calls" | "budget">,
): Promise<void> {
  const [first] = calls;
  if (first === undefined) return;
  const { name, ifName } = plannedNetwork(first);
  try {
    await detachChain(ctx, { network: name, ifName, netns, calls, budget });
  } catch (error) {
    throw withNetworkContext(error, { displayName: name, ifName });
  }
}

/** The call with further directories to search. */
function withPath(call: DelegateCall, path: readonly string[]): DelegateCall {
  const searchPath = extendedPath(call.searchPath, path);
  return { ...call, searchPath, env: { ...call.env, CNI_PATH: searchPath.join(":") } };
}

async function delDefaultNetwork(ctx: CallContext, sandbox: ForeignSandbox): Promise<void> {
  const network = await configuredDefaultNetwork(ctx, sandbox);
  if (network === undefined) return;
  const attachment = {
    ifName: sandbox.ifName,
    cniArgs: mergeCniArgs(sandbox.cniArgs),
    capabilityArgs: network.capabilityArgs,
    searchPath: delegateSearchPath(ctx.config, sandbox.path),
  };
  const { ifName, netns } = sandbox;
  const rt = runtimeConf(sandbox, attachment, ctx.config.delegateTimeoutMs);
  const calls = delCalls(network.list, rt, sandbox.prevResult);
  const chain = { network: network.displayName, ifName, netns, calls, budget: delBudget(ctx) };
  await detachChain(ctx, chain);
}

/**
 * A default network that is not configured cannot have attached anything that we could release.
 * One that cannot be determined now, because the API is not available, may have, unless the sandbox
 * was detached before: that is an error, so that the call is repeated.
 */
async function configuredDefaultNetwork(
  ctx: CallContext,
  key: ForeignSandbox,
): Promise<ResolvedNetwork | undefined> {
  const { runtimeConfig = {} } = key;
  try {
    return await defaultNetwork(ctx, { unlimited: true, runtimeConfig });
  } catch (error) {
    const isUnknown = !(error instanceof CniError) || error.code === CniErrorCode.TryAgainLater;
    if (isUnknown && !(await ctx.deps.records.hasTombstone(key))) throw error;
    ctx.logger.warn({ err: error }, "no record, and no default network that could get a DEL");
    return undefined;
  }
}
