import { CniError, CniErrorCode } from "#cni/error.ts";
import type { CallContext } from "#engine/deps.ts";
import type { ResolvedNetwork } from "#engine/planned-attachment.ts";
import type { AllocatedDevice, Pod } from "#engine/ports.ts";
import { withDevice } from "#npwg/device.ts";
import { DevicePool, type DeviceShortage } from "./device-pool.ts";
import { RefusedRequest } from "./refused-request.ts";

/** The pod's own word for a device, where nobody allocates any. */
const ownWord = "the pod's annotation";

/**
 * Gives each network that needs a device the next one of its resource that the pod was allocated, in the
 * order of attachment, or the one that the pod's selection names. Nothing is asked when none needs one.
 * @throws RefusedRequest (code 100) when the pod has no such device; CniError 11 when that is not known
 */
export async function assignDevices(
  ctx: CallContext,
  pod: Pod | undefined,
  networks: readonly ResolvedNetwork[],
): Promise<readonly ResolvedNetwork[]> {
  const needing = networks.filter(needsDevice);
  if (needing.length === 0) return networks;
  const pool = new DevicePool(await allocatedDevices(ctx, pod, needing));
  const devices = new Map<ResolvedNetwork, AllocatedDevice>();
  for (const network of needing) {
    const id = network.selection?.deviceId;
    if (id !== undefined) devices.set(network, namedDevice(ctx, pool, { network, id }));
  }
  for (const network of needing.filter((each) => !devices.has(each))) {
    const device = pool.takeNext(network.resourceName ?? "");
    if (device !== undefined) devices.set(network, device);
    else reportMissing(ctx, pod, { network, ...pool.shortage(network, needing) });
  }
  return networks.map((network) => attachedBy(network, devices.get(network)));
}

/** @throws RefusedRequest when the pod was not allocated it: else whoever creates pods could take any device */
function namedDevice(
  ctx: CallContext,
  pool: DevicePool,
  { network, id }: { readonly network: ResolvedNetwork; readonly id: string },
): AllocatedDevice {
  if (ctx.deps.deviceSources.length === 0) return { id, source: ownWord };
  const device = pool.takeNamed(network, id);
  if (device === undefined) throw notAllocated(network, id);
  return device;
}

function needsDevice({ resourceName, selection }: ResolvedNetwork): boolean {
  return (resourceName ?? "") !== "" || selection?.deviceId !== undefined;
}

function attachedBy(
  network: ResolvedNetwork,
  allocated: AllocatedDevice | undefined,
): ResolvedNetwork {
  if (allocated === undefined) return network;
  const device = { resourceName: network.resourceName ?? "", ...allocated };
  const capabilityArgs = { ...network.capabilityArgs, deviceID: device.id };
  return { ...network, list: withDevice(network.list, device.id), capabilityArgs, device };
}

/** What all sources say together. @throws CniError 100 when two of them have devices of one resource */
async function allocatedDevices(
  ctx: CallContext,
  pod: Pod | undefined,
  networks: readonly ResolvedNetwork[],
): Promise<ReadonlyMap<string, readonly AllocatedDevice[]>> {
  const { deviceSources } = ctx.deps;
  if (pod === undefined) return new Map();
  const lookup = { pod, networks, podObject: onceOnly(ctx, pod), signal: ctx.signal };
  const answers = await ctx.trace.phase("devices", () =>
    Promise.all(deviceSources.map((source) => source.devicesOf(lookup))),
  );
  const all = new Map<string, readonly AllocatedDevice[]>();
  for (const [resourceName, devices] of answers.flatMap((answer) => [...answer])) {
    const before = all.get(resourceName) ?? [];
    if (before.length > 0 && devices.length > 0)
      throw allocatedTwice(resourceName, before, devices);
    all.set(resourceName, [...before, ...devices]);
  }
  return all;
}

function onceOnly(
  { deps, signal }: CallContext,
  pod: Pod,
): () => ReturnType<NonNullable<typeof deps.source>["getPodObject"]> {
  let reading: ReturnType<NonNullable<typeof deps.source>["getPodObject"]> | undefined;
  return () => {
    reading ??= deps.source?.getPodObject(pod, { signal }) ?? Promise.resolve(undefined);
    return reading;
  };
}

/** A network that gets no device, and how it comes. */
interface MissingDevice extends DeviceShortage {
  readonly network: ResolvedNetwork;
}

/** @throws RefusedRequest unless the configuration has such networks attached without a device */
function reportMissing(ctx: CallContext, pod: Pod | undefined, missing: MissingDevice): void {
  const { network, found, needed } = missing;
  const resource = network.resourceName ?? "";
  const message =
    `network ${network.displayName}: its definition needs a device of resource ${resource}, of which the pod ` +
    `was allocated ${found}, and its networks need ${needed}: a container of the pod has to request ` +
    `the resource (resources.limits: ${resource}: "${needed}")`;
  const error = new RefusedRequest(
    "DeviceNotAllocated",
    new CniError(CniErrorCode.InvalidRequest, message),
  );
  if (ctx.config.missingDevice === "fail") throw error;
  ctx.logger.warn({ network: network.displayName, resource }, message);
  if (pod === undefined) return;
  ctx.deps.events.record(pod, { type: "Warning", reason: error.reason, message });
}

function notAllocated({ displayName, resourceName }: ResolvedNetwork, id: string): RefusedRequest {
  const resource = (resourceName ?? "") === "" ? "" : ` of resource ${resourceName}`;
  const message =
    `network ${displayName}: the pod's annotation asks for the device ${JSON.stringify(id)}${resource}, which ` +
    "the pod was not allocated, or which another of its networks has";
  return new RefusedRequest(
    "DeviceNotAllocated",
    new CniError(CniErrorCode.InvalidRequest, message),
  );
}

function allocatedTwice(
  resourceName: string,
  ...answers: readonly (readonly AllocatedDevice[])[]
): CniError {
  const sources = answers.map((devices) => devices[0]?.source).join(" and of ");
  return new CniError(
    CniErrorCode.InvalidRequest,
    `the pod has devices of resource ${resourceName} of ${sources}: which of them its networks are to get ` +
      "is not defined",
  );
}
