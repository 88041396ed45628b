import { gatewayOf, type LeaseOwner } from "../../world/leases.ts";
import { world } from "../../world/world.ts";
import { isOwner, type PluginCall, pluginError } from "./call.ts";

/** An address that host-local has allocated, in CIDR notation. */
export interface AllocatedAddress {
  readonly address: string;
  readonly gateway: string;
}

type Lease = Pick<LeaseOwner, "containerId" | "ifName">;

/** The networks of a configuration, one for each address. @throws CniError when there is none */
function subnetsOf({ conf: { ipam } }: PluginCall): readonly string[] {
  const ranges = ipam?.ranges?.map(([range]) => range?.subnet ?? "") ?? [];
  const subnets = ipam?.subnet === undefined ? ranges : [ipam.subnet, ...ranges];
  if (subnets.length === 0) throw pluginError("no IP ranges specified");
  return subnets;
}

/** host-local's ADD: all addresses, or none. @throws CniError; Error of the disk */
export function allocateAddresses(call: PluginCall): AllocatedAddress[] {
  const { leases } = world().kernel;
  const [duplicate] = leases.of(call);
  if (duplicate !== undefined) {
    const problem = `${duplicate} has been allocated to ${call.containerId}`;
    throw pluginError(`${problem}, duplicate allocation is not allowed`);
  }
  try {
    return subnetsOf(call).map((subnet) => allocateOne(call, subnet));
  } catch (error) {
    releaseAddresses(call);
    throw error;
  }
}

function allocateOne(call: PluginCall, subnet: string): AllocatedAddress {
  const requested = requestedIn(call, subnet);
  const address = world().kernel.leases.allocate(call, subnet, requested);
  if (address === undefined)
    throw pluginError(`failed to allocate ${requested ?? `in ${subnet}`}: not available`);
  world().note(() => `  + lease ${call.network} ${address} of ${call.containerId} ${call.ifName}`);
  const prefix = subnet.slice(subnet.indexOf("/"));
  return { address: address + prefix, gateway: gatewayOf(subnet) };
}

/** The address that the pod requests in a network of this family. */
function requestedIn({ conf }: PluginCall, subnet: string): string | undefined {
  const isV6 = subnet.includes(":");
  const requested = conf.runtimeConfig?.ips?.find((ip) => ip.includes(":") === isV6);
  return requested?.replace(/\/.*/, "");
}

/**
 * host-local's DEL. If it finds no lease of the interface, it releases one that names only the
 * container: of an earlier version of host-local, or written in part.
 * @throws Error of the disk
 */
export function releaseAddresses(call: PluginCall): void {
  const isPartial = (lease: Lease): boolean =>
    lease.containerId === call.containerId && lease.ifName === "";
  if (releaseIf(call, (lease) => isOwner(lease, call)) === 0) releaseIf(call, isPartial);
}

/** @throws CniError when it has none */
export function checkAddresses(call: PluginCall): void {
  if (world().kernel.leases.of(call).length > 0) return;
  throw pluginError(`Failed to find address added by container ${call.containerId}`);
}

/** Releases what is no attachment's. host-local itself has no GC yet. @throws Error of the disk */
export function collectAddresses(call: PluginCall): void {
  const valid = call.conf["cni.dev/valid-attachments"] ?? [];
  releaseIf(call, ({ containerId, ifName }) =>
    valid.every(({ containerID, ifname }) => containerID !== containerId || ifname !== ifName),
  );
}

/** @returns how many it releases */
function releaseIf({ network }: PluginCall, isUnused: (lease: Lease) => boolean): number {
  const { kernel, note } = world();
  const released = kernel.leases.release(network, isUnused);
  if (released.length > 0) note(() => `  - lease ${network} ${released.join(" ")}`);
  return released.length;
}
