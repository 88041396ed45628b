import { type CniArgs, mergeCniArgs } from "#cni/args.ts";
import { enabledCapabilities } from "#cni/conf/conf.ts";
import type { AddRequest } from "#cni/plugin/request.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import type { JsonObject } from "#lib/json.ts";
import { cniDeviceInfoPath, deviceInfoCapability } from "#npwg/device-info.ts";
import { podAnnotationsCapability } from "#npwg/object-meta.ts";
import { requestedCniArgs } from "#npwg/runtime-config.ts";
import { assignInterfaceNames, type NameOptions } from "./interface-names.ts";
import type { PlannedAttachment, ResolvedNetwork } from "./planned-attachment.ts";
import { delegateSearchPath } from "./plugins/search-path.ts";
import type { PlanContext } from "./problems.ts";

/**
 * Networks with what their plugins are called with for a call of the runtime: interface, arguments
 * and search path.
 * @throws CniError as {@link assignInterfaceNames}
 */
export function withCallParameters(
  { problems, config }: PlanContext,
  call: Pick<AddRequest, "containerId" | "ifName" | "cniArgs" | "path"> &
    Pick<NameOptions, "existing" | "firstNumber">,
  networks: readonly ResolvedNetwork[],
): PlannedAttachment[] {
  const { containerId, existing, firstNumber, cniArgs } = call;
  const options = { problems, runtimeIfName: call.ifName, existing, firstNumber };
  const names = assignInterfaceNames(networks, options);
  const searchPath = delegateSearchPath(config, call.path);
  return networks.map((network, i) => {
    const ifName = names[i] as string;
    const capabilityArgs = takenArgs(network, { containerId, ifName });
    return {
      ...network,
      ifName,
      cniArgs: delegateArgs(cniArgs, network),
      capabilityArgs,
      searchPath,
    };
  });
}

/**
 * The capability arguments that a plugin of the network takes: the pod's annotations, which are long,
 * and the file of its device only if one does.
 */
function takenArgs({ capabilityArgs, list }: ResolvedNetwork, owner: RecordKey): JsonObject {
  const taken = enabledCapabilities(list);
  const { [podAnnotationsCapability]: _, ...others } = capabilityArgs;
  const args = taken.has(podAnnotationsCapability) ? capabilityArgs : others;
  if (!taken.has(deviceInfoCapability)) return args;
  return { ...args, [deviceInfoCapability]: cniDeviceInfoPath(owner) };
}

/** CNI_ARGS with an address, for the interface that the runtime requests: the default network's. */
const addressArgs = new Set(["IP", "GATEWAY", "MAC"]);

/** The CNI_ARGS for a network, of those of the runtime's call. */
function delegateArgs(args: CniArgs, { isDefault, selection, list }: ResolvedNetwork): CniArgs {
  const own = isDefault ? args : args.filter(([key]) => !addressArgs.has(key));
  return mergeCniArgs(own, selection === undefined ? [] : requestedCniArgs(selection, list));
}
