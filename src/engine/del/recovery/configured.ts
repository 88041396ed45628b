import { CniError } from "#cni/error.ts";
import { delCallsOfStored } from "#cni/runtime/chain.ts";
import { runtimeConf } from "#cni/runtime/delegate-calls.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { collectErrors, combineErrors } from "#engine/call/failures.ts";
import { detachChain } from "#engine/del/chain/chain-teardown.ts";
import { interfaceIsPresent, netnsForDel } from "#engine/del/chain/netns.ts";
import { delBudget } from "#engine/del/detach.ts";
import { defaultNetwork, furtherDelegates } from "#engine/plan/default-network.ts";
import { assignInterfaceNames } from "#engine/plan/interface-names.ts";
import { delegateArgs } from "#engine/plan/plan-attachments.ts";
import type { ResolvedNetwork } from "#engine/plan/planned-attachment.ts";
import { delegateSearchPath } from "#engine/plan/plugins/search-path.ts";
import { heldInterfaces } from "./multus.ts";
import type { UnrecordedSandbox } from "./unrecorded-sandbox.ts";

/** A configured network, with the interface that an ADD gives it. */
interface ConfiguredNetwork extends ResolvedNetwork {
  readonly ifName: string;
}

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
  const first = await configuredDefaultNetwork(ctx, sandbox);
  if (first === undefined) return;
  const further = await furtherNetworks(ctx, sandbox, first);
  const networks = [{ ...first, ifName: sandbox.ifName }, ...further];
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
function delCallsOf(ctx: CallContext, sandbox: UnrecordedSandbox, network: ConfiguredNetwork) {
  const cniArgs = delegateArgs(sandbox.cniArgs, network);
  const searchPath = delegateSearchPath(ctx.config, sandbox.path);
  const attachment = { ...network, cniArgs, searchPath };
  const rt = runtimeConf(sandbox, attachment, ctx.config.delegateTimeoutMs);
  return delCallsOfStored(network.list, rt, network.isDefault ? sandbox.prevResult : undefined);
}

/** @throws CniError when the API is unavailable */
async function configuredDefaultNetwork(
  ctx: CallContext,
  { runtimeConfig = {} }: UnrecordedSandbox,
): Promise<ResolvedNetwork | undefined> {
  try {
    return await defaultNetwork({ ...ctx, unlimited: true }, runtimeConfig);
  } catch (error) {
    if (!(error instanceof CniError) || error.transient) throw error;
    ctx.logger.warn({ err: error }, "no record, and no default network to detach from");
    return undefined;
  }
}

/** The further `delegates`; none if damaged records of the container may have their interfaces. */
async function furtherNetworks(
  ctx: CallContext,
  sandbox: UnrecordedSandbox,
  first: ResolvedNetwork,
): Promise<ConfiguredNetwork[]> {
  const further = usableDelegates(ctx);
  if (further.length === 0) return [];
  const { names: existing, inDoubt } = await heldInterfaces(ctx, sandbox);
  if (inDoubt) return [];
  const options = { runtimeIfName: sandbox.ifName, existing, problems: [] };
  const names = assignInterfaceNames([first, ...further], options);
  return further.map((network, i) => ({ ...network, ifName: names[i + 1] as string }));
}

/** None if one cannot be used: no ADD would have attached any. */
function usableDelegates(ctx: CallContext): ResolvedNetwork[] {
  try {
    return furtherDelegates({ ...ctx, unlimited: true });
  } catch (error) {
    const message = "no record, and the further delegates cannot be used to detach from them";
    ctx.logger.warn({ err: error }, message);
    return [];
  }
}
