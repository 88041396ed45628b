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
import type { ClaimSelection } from "#npwg/selection/network-selection.ts";
import { allocatedDevices } from "./allocated-devices.ts";
import { DevicePool } from "./device-pool.ts";

/**
 * Gives each network of a resource its selected device, or the next of its resource, in order.
 * `devicesInUse` are the IDs of the devices that the pod's interfaces have.
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
  const devices = new Map<ResolvedNetwork, AllocatedDevice | undefined>();
  for (const network of asking.filter(namesDevice)) {
    const step = () => selectedDevice(ctx, pool, network);
    devices.set(network, await attempt(ctx, step, network.displayName));
  }
  for (const network of asking.filter((each) => !namesDevice(each))) {
    const { resourceName: resource = "" } = network;
    const device = pool.take(() => true, [resource]);
    devices.set(network, device);
    if (device !== undefined || !usesDevice(network)) continue;
    const needed = asking.filter(({ resourceName }) => resourceName === resource).length;
    const problem = missingDevice(network, pool.count(resource), needed);
    if (ctx.config.strictness === "standard") refuse(ctx, [problem]);
    else tolerate(ctx, pod, { ...problem, effect: "the network gets no device" });
  }
  return networks.map((network) => attachedBy(network, devices.get(network)));
}

/**
 * By ID or claim. Without an allocator, the annotation's word counts.
 * @throws CniError 100 unless it is the pod's: else users could take any device
 */
function selectedDevice(
  ctx: CallContext,
  pool: DevicePool,
  network: ResolvedNetwork,
): AllocatedDevice | undefined {
  const { selection: { deviceId: id, resourceClaim } = {}, resourceName = "" } = network;
  if (resourceClaim !== undefined) {
    const resources = resourceName === "" ? undefined : [resourceName, ""];
    const device = pool.take((each) => isOfClaim(each, resourceClaim), resources);
    if (device === undefined) throw notClaimed(network, resourceClaim);
    if (id === undefined || id === device.id) return device;
    throw notAllocated(network, id);
  }
  if (id === undefined) return undefined;
  if (ctx.deps.deviceSources.length === 0) return { id, source: "the pod's annotation" };
  const resources = resourceName === "" ? undefined : [resourceName];
  const device = pool.take((each) => each.id === id, resources);
  if (device === undefined) throw notAllocated(network, id);
  return device;
}

function isOfClaim({ claims = [] }: AllocatedDevice, { claim, request }: ClaimSelection): boolean {
  return claims.some(
    (each) => each.claim === claim && (request === undefined || each.request === request),
  );
}

function asksForDevice(network: ResolvedNetwork): boolean {
  return (network.resourceName ?? "") !== "" || namesDevice(network);
}

/** For others, the resource of the definition only tells the scheduler where the network is. */
function usesDevice({ list }: ResolvedNetwork): boolean {
  return list.plugins.some(({ type }) => !deviceIgnoringPlugins.has(type));
}

function namesDevice({ selection }: ResolvedNetwork): boolean {
  return selection?.deviceId !== undefined || selection?.resourceClaim !== undefined;
}

function attachedBy(
  network: ResolvedNetwork,
  allocated: AllocatedDevice | undefined,
): ResolvedNetwork {
  if (allocated === undefined) return network;
  const { id, source } = allocated;
  const device = { resourceName: network.resourceName ?? "", id, source };
  const capabilityArgs = { ...network.capabilityArgs, deviceID: device.id };
  return { ...network, list: withDevice(network.list, device.id), capabilityArgs, device };
}

/** `dddd:bb:dd.f`, with a domain of up to eight digits. */
const pciAddress = /^[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$/i;

/**
 * Adds a device to every plugin's configuration, as Multus does: `deviceID`, which overrides that
 * of the definition, and for PCI devices also `pciBusID`. With any other ID there, `host-device`
 * would not find the link that its configuration names.
 */
function withDevice(list: NetConfList, deviceId: string): NetConfList {
  const pciBusID = pciAddress.test(deviceId) ? { pciBusID: deviceId } : {};
  return withPluginKeys(list, () => ({ deviceID: deviceId, ...pciBusID }));
}

function missingDevice(
  { displayName: network, resourceName }: ResolvedNetwork,
  found: number,
  needed: number,
): PlanProblem {
  const message =
    `network ${network}: its definition needs a device of resource ${resourceName}, but the pod ` +
    `was allocated ${found} of the ${needed} that its networks need; request the resource in a container ` +
    `(resources.limits: ${resourceName}: "${needed}") or in a resource claim; if it has no devices, ` +
    "add it to markerResources of plexusd's configuration";
  return { network, error: new CniError("DeviceNotAllocated", message) };
}

function notAllocated({ displayName, resourceName }: ResolvedNetwork, id: string): CniError {
  const message =
    `network ${displayName}: the pod's annotation asks for the device ${JSON.stringify(id)}${ofResource(resourceName)}, which ` +
    "the pod was not allocated, or which another of its networks has";
  return new CniError("DeviceNotAllocated", message);
}

function notClaimed(
  { displayName, resourceName }: ResolvedNetwork,
  { claim, request }: ClaimSelection,
): CniError {
  const wanted = request === undefined ? "" : `request ${JSON.stringify(request)} of `;
  const message =
    `network ${displayName}: the pod's annotation asks for the device of ${wanted}its resource claim ` +
    `${JSON.stringify(claim)}, for which it was allocated no device${ofResource(resourceName)} that another of its networks does not have`;
  return new CniError("DeviceNotAllocated", message);
}

function ofResource(name = ""): string {
  return name === "" ? "" : ` of resource ${name}`;
}
