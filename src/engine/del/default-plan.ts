import { delCalls } from "#cni/runtime/chain.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { runtimeConf } from "#cni/runtime/delegate-calls.ts";
import { contextWithoutCall } from "#engine/call/call-context.ts";
import { defaultNetwork } from "#engine/plan/default-network.ts";
import { delegateSearchPath } from "#engine/plan/plugins/search-path.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import type { JsonObject } from "#lib/json.ts";
import { withRelease } from "./planned-dels.ts";

/** Variables that the shim copies from its call. */
const callVariables = ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS"];

/**
 * The DELs of the default network for a sandbox without a record, from the runtime's `conf`;
 * undefined when none is configured. The shim adds the variables of its call. CNI allows a DEL
 * without `runtimeConfig` and `prevResult`.
 * @throws CniError when it cannot be resolved
 */
export async function defaultNetworkDels(
  deps: EngineDeps,
  conf: JsonObject,
): Promise<readonly DelegateCall[] | undefined> {
  const ctx = contextWithoutCall(deps, conf);
  const { config } = ctx;
  if (config.clusterNetwork === undefined && config.delegates.length === 0) return undefined;
  const { list } = await defaultNetwork({ ...ctx, unlimited: true });
  const searchPath = delegateSearchPath(config, []);
  const attachment = { ifName: "", cniArgs: [], capabilityArgs: {}, searchPath };
  const rt = runtimeConf({ containerId: "", netns: "" }, attachment, config.delegateTimeoutMs);
  const dels = delCalls(list, rt).flatMap(withRelease);
  return dels.map((call) => {
    const env = Object.entries(call.env).filter(([name]) => !callVariables.includes(name));
    return { ...call, env: Object.fromEntries(env) };
  });
}
