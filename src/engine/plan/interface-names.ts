import { CniError } from "#cni/error.ts";
import type { ResolvedNetwork } from "./planned-attachment.ts";
import { type PlanContext, refuse } from "./problems.ts";

/** What the names are chosen by. */
export interface NameOptions extends Pick<PlanContext, "problems"> {
  readonly runtimeIfName: string;
  readonly existing: ReadonlySet<string>;
  /** The number of the first generated name. @default the network's position */
  readonly firstNumber?: number | undefined;
}

/** The names that are in use, by whom: a network, or the pod's network namespace (""). */
type Owners = Map<string, string>;

/**
 * Gives every attachment its interface name (CNI_IFNAME): the requested one, the runtime's for the
 * default network, else `net1`, `net2` … by position, skipping requested and existing names
 * (multi-network specification v1.1 §4.1.2.1.5, §4.2.1).
 * @throws CniError 100 naming a taken interface and its networks, unless problems are collected
 */
export function assignInterfaceNames(
  networks: readonly ResolvedNetwork[],
  options: NameOptions,
): string[] {
  const owners: Owners = new Map([...options.existing].map((name) => [name, ""]));
  const requested = networks.map((network) => {
    const { displayName, selection, isDefault } = network;
    const name = isDefault ? options.runtimeIfName : selection?.ifName;
    if (name === undefined) return undefined;
    const error = nameProblem(network, name, owners);
    if (error !== undefined) refuse(options, [{ network: displayName, error }]);
    owners.set(name, displayName);
    return name;
  });
  return requested.map((name, index) => name ?? generate(options.firstNumber ?? index, owners));
}

function nameProblem(
  { displayName: network, selection, isDefault }: ResolvedNetwork,
  name: string,
  owners: Owners,
): CniError | undefined {
  const wanted = selection?.ifName ?? name;
  // The runtime finds the default network under the name that it passed (CNI 0.3.0 "Result").
  if (isDefault && wanted !== name) {
    const message = `network ${network} replaces the default network and must be on interface ${name}, which the runtime requests, not on ${wanted}`;
    return new CniError("DefaultInterfaceName", message);
  }
  const owner = owners.get(name);
  if (owner === undefined) return undefined;
  const message =
    owner === ""
      ? `interface ${name}, requested by network ${network}, already exists in the pod's network namespace`
      : `interface ${name} is requested by network ${owner} and by network ${network}`;
  return new CniError("InterfaceNameTaken", message);
}

function generate(first: number, owners: Owners): string {
  for (let n = first; ; n++) {
    const name = `net${n}`;
    if (owners.has(name)) continue;
    owners.set(name, name);
    return name;
  }
}
