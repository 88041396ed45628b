import { type NetConfList, withPluginKeys } from "#cni/conf/conf.ts";
import { CniError } from "#cni/error.ts";
import { deviceIgnoringPlugins } from "#cni/reference-plugins.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import type { ResolvedNetwork } from "#engine/plan/planned-attachment.ts";
import {
  attempt,
  type PlanContext,
  type PlanProblem,
  refuse,
  tolerate,
} from "#engine/plan/problems.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import type { AllocatedDevice } from "#engine/ports/devices.ts";
import type { ClaimSelection, NetworkSelection } from "#npwg/selection/network-selection.ts";
import { allocatedDevices } from "./allocated-devices.ts";
import { DevicePool } from "./device-pool.ts";
import {
  devicesInOrder,
  eachDeviceAnnotation,
  isPciAddress,
  takesEachDevice,
} from "./each-device.ts";

/**
 * Gives each network of a resource its selected device, or the next of its resource, in order. One
 * whose definition wants each device becomes as many networks. `devicesInUse` are the IDs of the
 * devices that the pod's interfaces have.
 * @throws CniError 100 when the pod has no such device, unless no plugin of the network uses one, or
 *   the configuration has such networks attached without one; CniError 11 when that is not known
 */
export async function assignDevices(
  ctx: PlanContext & { readonly devicesInUse: readonly string[] },
  pod: Pod | undefined,
  networks: readonly ResolvedNetwork[],
): Promise<readonly ResolvedNetwork[]> {
  const asking = networks.filter(asksForDevice);
  if (asking.length === 0) return networks;
  const allocated = await attempt(ctx, () => allocatedDevices(ctx, pod, asking));
  if (allocated === undefined) return networks;
  const pool = new DevicePool(allocated, ctx.devicesInUse);
  const devices = new Map<ResolvedNetwork, readonly AllocatedDevice[]>();
  // What is named most closely first.
  for (const network of asking.toSorted((a, b) => closeness(b) - closeness(a))) {
    const { resourceName: resource = "" } = network;
    const step = () => devicesInOrder(network, ownDevices(ctx, pool, network));
    const own = await attempt(ctx, step, network.displayName);
    devices.set(network, own ?? []);
    if (own?.length !== 0 || !usesDevice(network)) continue;
    const needed = asking.filter(({ resourceName }) => resourceName === resource).length;
    const problem = missingDevice(network, pool, needed);
    if (ctx.config.strictness === "standard") refuse(ctx, [problem]);
    else tolerate(ctx, pod, { ...problem, effect: "the network gets no device" });
  }
  return networks.flatMap((network) => attachedBy(network, devices.get(network) ?? []));
}

const noSelection: Partial<NetworkSelection> = {};

/**
 * By ID or claim, else the next. Without an allocator, the annotation's word counts.
 * @throws CniError 100 unless what is selected is the pod's: else users could take any device
 */
function ownDevices(
  ctx: CallContext,
  pool: DevicePool,
  network: ResolvedNetwork,
): readonly AllocatedDevice[] {
  const { resourceName, selection } = network;
  const { deviceId: id, resourceClaim: claim, formerDevice: former } = selection ?? noSelection;
  const hasAll = id === undefined && former === undefined && takesEachDevice(network);
  if (id !== undefined && claim === undefined && ctx.deps.deviceSources.length === 0)
    return [{ id, source: "the pod's annotation" }];
  const isWanted = (each: AllocatedDevice): boolean =>
    (id === undefined || each.id === id) && (claim === undefined || isOfClaim(each, claim));
  const take = (resource?: string) =>
    pool.take({ count: hasAll ? Number.POSITIVE_INFINITY : 1, isWanted, resource, former });
  const devices = take(resourceName || undefined);
  if (devices.length > 0) return devices;
  // A driver need not publish a resource; but the claim may also have devices for others, as GPUs.
  const ofClaim = claim === undefined ? [] : take("");
  if (ofClaim.length > 0) return ofClaim;
  if (id !== undefined) throw notAllocated(network, id, pool);
  if (claim !== undefined) throw notClaimed(network, claim, pool);
  return [];
}

function isOfClaim({ claims = [] }: AllocatedDevice, { claim, request }: ClaimSelection): boolean {
  return claims.some(
    (each) => each.claim === claim && (request === undefined || each.request === request),
  );
}

function asksForDevice({ resourceName = "", selection, eachDevice }: ResolvedNetwork): boolean {
  const { deviceId, resourceClaim, formerDevice } = selection ?? noSelection;
  const isNamed = deviceId !== undefined || resourceClaim !== undefined;
  return resourceName !== "" || isNamed || (eachDevice === "true" && formerDevice === undefined);
}

/** For others, the resource of the definition only tells the scheduler where the network is. */
function usesDevice({ list }: ResolvedNetwork): boolean {
  return list.plugins.some(({ type }) => !deviceIgnoringPlugins.has(type));
}

/** Of what an element says of its device: by ID, by the one that it had, by claim, or nothing. */
function closeness({ selection }: ResolvedNetwork): number {
  if (selection?.deviceId !== undefined) return 3;
  return selection?.formerDevice ? 2 : Number(selection?.resourceClaim !== undefined);
}

/** The network, once for each of its devices. */
function attachedBy(
  network: ResolvedNetwork,
  devices: readonly AllocatedDevice[],
): readonly ResolvedNetwork[] {
  const { list, capabilityArgs: args, resourceName = "" } = network;
  if (devices.length === 0) return [network];
  return devices.map(({ id, source }) => ({
    ...network,
    list: withDevice(list, id),
    capabilityArgs: { ...args, deviceID: id },
    device: { resourceName, id, source },
    ...(devices.length > 1 && { deviceCount: devices.length }),
  }));
}

/**
 * Adds a device to every plugin's configuration, as Multus does: `deviceID`, which overrides that
 * of the definition, and for PCI devices also `pciBusID`. With any other ID there, `host-device`
 * would not find the link that its configuration names.
 */
function withDevice(list: NetConfList, deviceId: string): NetConfList {
  const pciBusID = isPciAddress(deviceId) ? { pciBusID: deviceId } : {};
  return withPluginKeys(list, () => ({ deviceID: deviceId, ...pciBusID }));
}

function missingDevice(
  { displayName: network, resourceName = "" }: ResolvedNetwork,
  pool: DevicePool,
  needed: number,
): PlanProblem {
  const found = pool.count(resourceName);
  const problem =
    found < needed
      ? `the pod was allocated ${found} of the ${needed} that its networks need; request the resource in a container ` +
        `(resources.limits: ${resourceName}: "${needed}") or in a resource claim; if it has no devices, ` +
        "add it to markerResources of plexusd's configuration"
      : `the ${found} of the pod are those of other networks; one with ${eachDeviceAnnotation} takes all that are left`;
  const message = `network ${network}: its definition needs a device of resource ${resourceName}, but ${problem}; ${pool.text}`;
  return { network, error: new CniError("DeviceNotAllocated", message) };
}

function notAllocated(
  { displayName, resourceName }: ResolvedNetwork,
  id: string,
  { text }: DevicePool,
): CniError {
  const message =
    `network ${displayName}: the pod's annotation asks for the device ${JSON.stringify(id)}${ofResource(resourceName)}, which ` +
    `the pod was not allocated, or which another of its networks has; ${text}`;
  return new CniError("DeviceNotAllocated", message);
}

function notClaimed(
  { displayName, resourceName }: ResolvedNetwork,
  { claim, request }: ClaimSelection,
  { text }: DevicePool,
): CniError {
  const wanted = request === undefined ? "" : `request ${JSON.stringify(request)} of `;
  const message =
    `network ${displayName}: the pod's annotation asks for the device of ${wanted}its resource claim ` +
    `${JSON.stringify(claim)}, for which it was allocated no device${ofResource(resourceName)} that another of its networks does not have; ${text}`;
  return new CniError("DeviceNotAllocated", message);
}

function ofResource(name = ""): string {
  return name === "" ? "" : ` of resource ${name}`;
}
