import { mergeCniArgs } from "#cni/args.ts";
import { asCniError, CniError, CniErrorCode } from "#cni/error.ts";
import { delNetwork } from "#cni/runtime/chain.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { delegateFailure } from "#cni/runtime/delegate-error.ts";
import type { CallContext } from "#engine/deps.ts";
import { defaultNetwork } from "#engine/plan/default-network.ts";
import { runtimeConf } from "#engine/planned-attachment.ts";
import { HostGoneError, type RecordKey, type TeardownPlan } from "#engine/ports.ts";
import { plannedNetwork } from "#engine/teardown-plan.ts";
import { failedTogether, hasInterface, usableNetns } from "./detach.ts";

/** A sandbox that is to be detached without its record. */
export interface UnrecordedSandbox extends RecordKey {
  readonly netns: string;
  /** CNI_PATH of the call. */
  readonly path: readonly string[];
  readonly cniArgs: readonly (readonly [string, string])[];
}

/**
 * Detaches a sandbox whose record is missing or, with `problem`, unusable: by its teardown plan,
 * which is complete; without a plan the default network alone is told, from today's
 * configuration. A pod that was attached before Plexus came to this node has neither, and its
 * address must not leak; plugins take a DEL of what they do not know as success (CNI 1.1.0 §4 "DEL").
 *
 * Files that are damaged are put aside: they must not keep the sandbox from being deleted for ever.
 * Files that cannot be read now may be readable later: that is an error.
 * @throws CniError when something could not be detached; it can be tried again
 */
export async function detachUnrecorded(
  ctx: CallContext,
  sandbox: UnrecordedSandbox,
  problem?: CniError,
): Promise<void> {
  const { plan, problem: planProblem } = await loadPlan(ctx, sandbox);
  if (plan !== undefined) {
    await replay(ctx, sandbox, plan);
    await ctx.deps.records.remove(sandbox);
    const fields = { err: problem };
    ctx.logger.warn(fields, "no usable record: detached by the teardown plan");
    return;
  }
  const problems = [problem, planProblem].filter((each) => each !== undefined);
  const unreadable = problems.find((each) => each.code !== CniErrorCode.DecodingFailure);
  if (unreadable !== undefined) throw unreadable;
  if (problems.length > 0) {
    await ctx.deps.records.quarantine(sandbox);
    const message =
      "record and teardown plan are unusable and put aside: only the default network is told of " +
      "the DEL, other networks may hold on to addresses";
    ctx.logger.error({ err: new AggregateError(problems, message) }, message);
  }
  await delDefault(ctx, sandbox);
}

async function loadPlan(
  ctx: CallContext,
  key: RecordKey,
): Promise<{ plan?: TeardownPlan | undefined; problem?: CniError }> {
  try {
    return { plan: await ctx.deps.records.loadPlan(key) };
  } catch (error) {
    return { problem: asCniError(error) };
  }
}

/** Runs every call of a plan; a chain stops at its first error, other attachments go on. */
async function replay(
  ctx: CallContext,
  sandbox: UnrecordedSandbox,
  plan: TeardownPlan,
): Promise<void> {
  const netns = await usableNetns(ctx, sandbox.netns);
  const failures = new Map<number, CniError>();
  for (const { group, call } of plan) {
    if (failures.has(group)) continue;
    try {
      await runPlanned(ctx, { ...call, env: { ...call.env, CNI_NETNS: netns } });
    } catch (error) {
      if (error instanceof HostGoneError) throw error;
      failures.set(group, asCniError(error));
    }
  }
  if (failures.size > 0) throw failedTogether([...failures.values()]);
}

/** As with a record: repeated without a namespace where there is nothing left to do in it. */
async function runPlanned(ctx: CallContext, call: DelegateCall): Promise<void> {
  const network = plannedNetwork(call);
  const run = ctx.run(network.name);
  const outcome = await run(call);
  if (outcome.outcome === "exited" && outcome.code === 0) return;
  const netns = call.env.CNI_NETNS ?? "";
  if (netns === "" || (await hasInterface(ctx, netns, network.ifName))) {
    throw delegateFailure(outcome, { call, network: network.name });
  }
  await runPlanned(ctx, { ...call, env: { ...call.env, CNI_NETNS: "" } });
}

async function delDefault(ctx: CallContext, sandbox: UnrecordedSandbox): Promise<void> {
  const network = await resolveDefault(ctx);
  if (network === undefined) return;
  const { binDir, delegateTimeoutMs } = ctx.config;
  const attachment = {
    ifName: sandbox.ifName,
    cniArgs: mergeCniArgs(sandbox.cniArgs),
    capabilityArgs: network.capabilityArgs,
    searchPath: [...(binDir === undefined ? [] : [binDir]), ...sandbox.path],
  };
  const { containerId } = sandbox;
  const netns = await usableNetns(ctx, sandbox.netns);
  const rt = runtimeConf({ containerId, netns }, attachment, delegateTimeoutMs);
  await delNetwork(network.list, rt, { run: ctx.run(network.displayName) });
}

/**
 * A default network that is not configured cannot have attached anything that we could release.
 * One that cannot be told now, because the API is away, may have: that is an error, to be tried again.
 */
async function resolveDefault(
  ctx: CallContext,
): Promise<Awaited<ReturnType<typeof defaultNetwork>> | undefined> {
  try {
    return await defaultNetwork(ctx, {});
  } catch (error) {
    if (!(error instanceof CniError) || error.code === CniErrorCode.TryAgainLater) throw error;
    ctx.logger.warn({ err: error }, "no record, and no default network to tell of the DEL");
    return undefined;
  }
}
