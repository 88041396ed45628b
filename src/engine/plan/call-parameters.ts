import { type CniArgs, mergeCniArgs } from "#cni/args.ts";
import type { AddRequest } from "#cni/plugin/request.ts";
import { requestedCniArgs } from "#npwg/runtime-config.ts";
import { assignInterfaceNames, type NameOptions } from "./interface-names.ts";
import type { PlannedAttachment, ResolvedNetwork } from "./planned-attachment.ts";
import { delegateSearchPath } from "./plugins/search-path.ts";
import type { PlanContext } from "./problems.ts";

/**
 * Networks with what their plugins are called with for a call of the runtime: interface, CNI_ARGS
 * and search path.
 * @throws CniError as {@link assignInterfaceNames}
 */
export function withCallParameters(
  { problems, config }: PlanContext,
  call: Pick<AddRequest, "ifName" | "cniArgs" | "path"> &
    Pick<NameOptions, "existing" | "firstNumber">,
  networks: readonly ResolvedNetwork[],
): PlannedAttachment[] {
  const { existing, firstNumber, cniArgs } = call;
  const options = { problems, runtimeIfName: call.ifName, existing, firstNumber };
  const names = assignInterfaceNames(networks, options);
  const searchPath = delegateSearchPath(config, call.path);
  return networks.map((network, i) => {
    const ifName = names[i] as string;
    return { ...network, ifName, cniArgs: delegateArgs(cniArgs, network), searchPath };
  });
}

/** CNI_ARGS with an address, for the interface that the runtime requests: the default network's. */
const addressArgs = new Set(["IP", "GATEWAY", "MAC"]);

/** The CNI_ARGS for a network, of those of the runtime's call. */
function delegateArgs(args: CniArgs, { isDefault, selection, list }: ResolvedNetwork): CniArgs {
  const own = isDefault ? args : args.filter(([key]) => !addressArgs.has(key));
  return mergeCniArgs(own, selection === undefined ? [] : requestedCniArgs(selection, list));
}
