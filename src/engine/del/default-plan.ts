import { delCalls } from "#cni/runtime/chain.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { callContext, toolsWithoutCall } from "#engine/call/call-context.ts";
import type { EngineDeps } from "#engine/call/deps.ts";
import { configForCall } from "#engine/config.ts";
import { defaultNetwork } from "#engine/plan/default-network.ts";
import { runtimeConf } from "#engine/plan/planned-attachment.ts";
import { delegateSearchPath } from "#engine/plan/search-path.ts";
import { withRelease } from "#engine/record/teardown-plan.ts";
import type { JsonObject } from "#lib/json.ts";

/** What the shim takes from its own call. */
const callVariables = ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS"];

/**
 * The DELs that a sandbox without a record gets from the default network, without what only its call can say: the
 * shim adds its variables; `runtimeConfig` and `prevResult` are missing, as CNI allows in a DEL.
 * @param conf the conf with which the container runtime calls Plexus
 * @returns undefined when no default network is configured
 * @throws CniError when it cannot be resolved
 */
export async function defaultNetworkDels(
  deps: EngineDeps,
  conf: JsonObject,
): Promise<readonly DelegateCall[] | undefined> {
  const { logger } = deps;
  const config = configForCall(deps.config(), conf);
  if (config.clusterNetwork === undefined && config.delegates.length === 0) return undefined;
  const ctx = callContext(deps, toolsWithoutCall(deps), { config, logger, netnsState: "none" });
  const { list } = await defaultNetwork(ctx, { unlimited: true });
  const searchPath = delegateSearchPath(config, []);
  const attachment = { ifName: "", cniArgs: [], capabilityArgs: {}, searchPath };
  const rt = runtimeConf({ containerId: "", netns: "" }, attachment, config.delegateTimeoutMs);
  return delCalls(list, rt).flatMap(withRelease).map(withoutCallVariables);
}

function withoutCallVariables(call: DelegateCall): DelegateCall {
  const env = Object.entries(call.env).filter(([name]) => !callVariables.includes(name));
  return { ...call, env: Object.fromEntries(env) };
}
