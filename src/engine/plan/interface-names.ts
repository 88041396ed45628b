import { CniError } from "#cni/error.ts";
import type { ResolvedNetwork } from "./planned-attachment.ts";

/**
 * Gives every attachment its interface name (CNI_IFNAME): the requested one, the runtime's for the
 * default network, else `net1`, `net2` … by position. Generated names step aside for requested and
 * existing ones; a requested name that is taken fails the pod (multi-network specification v1.1
 * §4.1.2.1.5, §4.2.1).
 * @throws CniError 100 naming the interface and the networks that request it
 */
export function assignInterfaceNames(
  networks: readonly ResolvedNetwork[],
  options: { readonly runtimeIfName: string; readonly existing: ReadonlySet<string> },
): string[] {
  const owners = new Map<string, string>();
  const requested = networks.map((n) =>
    n.isDefault ? runtimeName(n, options.runtimeIfName) : n.selection?.ifName,
  );
  for (const [index, name] of requested.entries()) {
    if (name !== undefined)
      claim(name, { owner: describe(networks, index), owners, existing: options.existing });
  }
  return requested.map(
    (name, index) => name ?? generate(index, { owners, existing: options.existing }),
  );
}

/** The runtime finds the default network under the name that it passed (CNI 0.3.0 "Result": that name or an error). */
function runtimeName({ selection, displayName }: ResolvedNetwork, runtimeIfName: string): string {
  const wanted = selection?.ifName ?? runtimeIfName;
  if (wanted === runtimeIfName) return wanted;
  throw new CniError(
    "DefaultInterfaceName",
    `network ${displayName} replaces the default network and must be on interface ` +
      `${runtimeIfName}, which the runtime requests, not on ${wanted}`,
  );
}

interface Claims {
  readonly owners: Map<string, string>;
  readonly existing: ReadonlySet<string>;
}

function claim(name: string, { owner, owners, existing }: Claims & { owner: string }): void {
  const other = owners.get(name);
  if (other !== undefined) {
    throw new CniError(
      "InterfaceNameTaken",
      `interface ${name} is requested by network ${other} and by network ${owner}`,
    );
  }
  if (existing.has(name)) {
    throw new CniError(
      "InterfaceNameTaken",
      `interface ${name}, requested by network ${owner}, already exists in the pod's network namespace`,
    );
  }
  owners.set(name, owner);
}

function generate(position: number, claims: Claims): string {
  for (let n = position; ; n++) {
    const name = `net${n}`;
    if (claims.owners.has(name) || claims.existing.has(name)) continue;
    claims.owners.set(name, name);
    return name;
  }
}

function describe(networks: readonly ResolvedNetwork[], index: number): string {
  return networks[index]?.displayName ?? "";
}
