import { CniError } from "#cni/error.ts";
import { delCallsOfStored } from "#cni/runtime/chain.ts";
import { runtimeConf } from "#cni/runtime/delegate-calls.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { detachChain } from "#engine/del/chain/chain-teardown.ts";
import { interfaceIsPresent, netnsForDel } from "#engine/del/chain/netns.ts";
import { delBudget } from "#engine/del/detach.ts";
import { collectErrors, combineErrors } from "#engine/del/failures.ts";
import { withCallParameters } from "#engine/plan/call-parameters.ts";
import { defaultNetwork, furtherDelegates } from "#engine/plan/default-network.ts";
import type { PlannedAttachment } from "#engine/plan/planned-attachment.ts";
import { heldInterfaces } from "./multus.ts";
import type { UnrecordedSandbox } from "./unrecorded-sandbox.ts";

/**
 * Detaches a sandbox from the default network and the further `delegates` of the configuration,
 * last first, even if others fail.
 * Without the default network's interface, perhaps nothing was attached, as after a refused ADD in
 * the namespace of a container that runs. Its `net1` may be anybody's, so only leases are released.
 * @throws CniError when something could not be detached; the call can be repeated
 */
export async function detachConfigured(
  ctx: CallContext,
  sandbox: UnrecordedSandbox,
): Promise<void> {
  const networks = await configuredAttachments(ctx, sandbox);
  const further = networks.slice(1);
  // None if another sandbox may have one of the interfaces there.
  const furtherNames = further.map(({ ifName }) => ifName);
  const hasFurther = further.length > 0;
  const netns = hasFurther ? await netnsForDel(ctx, { ...sandbox, furtherNames }) : sandbox.netns;
  const isThere = hasFurther && (await interfaceIsPresent(ctx, { netns, ifName: sandbox.ifName }));
  const { budget = delBudget(ctx) } = sandbox;
  let left = networks.length;
  const errors = await collectErrors(networks.toReversed(), async (network) => {
    const { displayName, ifName, isDefault } = network;
    const calls = delCallsOf(ctx, sandbox, network);
    const chain = { network: displayName, ifName, calls, budget: budget.share(left--) };
    await detachChain(ctx, { ...chain, netns: isDefault || isThere ? netns : "" });
  });
  if (errors.length === 0) return;
  throw combineErrors(errors, `${errors.length} networks could not be detached`);
}

/** The runtime's result is of the default network. */
function delCallsOf(ctx: CallContext, sandbox: UnrecordedSandbox, network: PlannedAttachment) {
  const rt = runtimeConf(sandbox, network, ctx.config.delegateTimeoutMs);
  return delCallsOfStored(network.list, rt, network.isDefault ? sandbox.prevResult : undefined);
}

/**
 * The default network and the further `delegates`, as an ADD attaches them: without these if damaged
 * records of the container may have their interfaces.
 * @throws CniError when the API is unavailable
 */
async function configuredAttachments(
  ctx: CallContext,
  sandbox: UnrecordedSandbox,
): Promise<PlannedAttachment[]> {
  const first = await configuredDefaultNetwork(ctx, sandbox);
  if (first === undefined) return [];
  const further = usableDelegates(ctx);
  const held = further.length === 0 ? undefined : await heldInterfaces(ctx, sandbox);
  const networks = held === undefined || held.inDoubt ? [first] : [first, ...further];
  const call = { ...sandbox, existing: held?.names ?? new Set<string>() };
  return withCallParameters({ ...ctx, problems: [] }, call, networks);
}

/** @throws CniError when the API is unavailable */
async function configuredDefaultNetwork(
  ctx: CallContext,
  { runtimeConfig = {} }: UnrecordedSandbox,
) {
  try {
    return await defaultNetwork({ ...ctx, unlimited: true }, runtimeConfig);
  } catch (error) {
    if (!(error instanceof CniError) || error.transient) throw error;
    ctx.logger.warn({ err: error }, "no record, and no default network to detach from");
    return undefined;
  }
}

/** None if one cannot be used: no ADD would have attached any. */
function usableDelegates(ctx: CallContext) {
  try {
    return furtherDelegates({ ...ctx, unlimited: true });
  } catch (error) {
    const message = "no record, and the further delegates cannot be used to detach from them";
    ctx.logger.warn({ err: error }, message);
    return [];
  }
}
