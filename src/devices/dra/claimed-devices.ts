import { CniError, CniErrorCode } from "#cni/error.ts";
import {
  type AllocatedDevice,
  type ClaimRequest,
  type DeviceLookup,
  type DeviceSource,
  type Logger,
  type Pod,
  type ResourceApi,
  ResourceApiUnavailableError,
} from "#engine/ports.ts";
import { deadline } from "#lib/concurrency/deadline.ts";
import { errorMessage } from "#lib/error-message.ts";
import { type AllocatedClaim, allocatedClaim, type ClaimedDevice } from "./claim.ts";
import { type DeviceAttributes, deviceKey, type NetworkDevice } from "./device-attributes.ts";
import { DeviceList } from "./device-list.ts";
import { deviceFromMetadata } from "./metadata-files.ts";
import { type PodClaim, podClaims } from "./pod-claims.ts";
import { devicesFromSlices } from "./slices.ts";

/** What {@link ClaimedDevices} reads. */
export interface ClaimedDevicesOptions {
  readonly api: ResourceApi;
  /** The kubelet's directory, in which drivers write metadata of devices. */
  readonly kubeletDir: string;
  readonly logger: Logger;
  /** What all reads for one pod may take. @default 10000 */
  readonly timeoutMs?: number;
}

/** A claim of the pod and what it was allocated. */
interface ReadClaim {
  readonly claim: PodClaim;
  readonly allocated: AllocatedClaim;
}

/** What a pod was allocated by dynamic resource allocation: for its claims, and for extended resources. */
export class ClaimedDevices implements DeviceSource {
  readonly #options: ClaimedDevicesOptions;
  #isKnownUnavailable = false;

  constructor(options: ClaimedDevicesOptions) {
    this.#options = options;
  }

  /** @throws CniError 11 when it cannot be read in time, 6 or 100 when a claim is missing or cannot be used */
  async devicesOf(lookup: DeviceLookup): Promise<ReadonlyMap<string, readonly AllocatedDevice[]>> {
    const object = await lookup.podObject();
    const claims = object === undefined ? [] : podClaims(object);
    if (claims.length === 0) return new Map();
    const { timeoutMs = 10_000 } = this.#options;
    using limit = deadline(timeoutMs, lookup.signal);
    try {
      return await this.#read(lookup, claims, limit.signal);
    } catch (error) {
      if (error instanceof ResourceApiUnavailableError) return this.#unavailable(error);
      if (!limit.signal.aborted || error instanceof CniError) throw error;
      throw notInTime(lookup.pod, error);
    }
  }

  async #read(
    { pod, networks }: DeviceLookup,
    claims: readonly PodClaim[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, readonly AllocatedDevice[]>> {
    const read = await Promise.all(
      claims.map(async (claim) => ({ claim, allocated: await this.#claim(pod, claim, signal) })),
    );
    const attributes = await this.#attributes(pod, read, signal);
    const list = new DeviceList();
    const needed = new Set(networks.map(({ resourceName }) => resourceName));
    for (const { claim, allocated } of read) {
      for (const device of allocated.devices) addClaimed(list, { claim, device, attributes });
      for (const mapping of claim.mappings.filter((each) => needed.has(each.resourceName)))
        addExtended(list, { mapping, claim, allocated, attributes });
    }
    return list.byResource;
  }

  async #claim(pod: Pod, claim: PodClaim, signal: AbortSignal): Promise<AllocatedClaim> {
    const ref = { namespace: pod.namespace, name: claim.claimName };
    const object = await this.#options.api.getClaim(ref, { signal });
    if (object === undefined) throw missing(pod, claim);
    return allocatedClaim(object, claim, pod);
  }

  /** By the drivers' files where they write some; by their slices for the devices that are in none. */
  async #attributes(
    { namespace }: Pod,
    claims: readonly ReadClaim[],
    signal: AbortSignal,
  ): Promise<DeviceAttributes> {
    const all = claims.flatMap(({ allocated }) =>
      allocated.devices.map((device) => ({ claim: allocated, device })),
    );
    const attributes = new Map<string, NetworkDevice>();
    for (const { claim, device } of all) {
      const found = await this.#fromFile(namespace, claim, device);
      if (found !== undefined) attributes.set(deviceKey(device), found);
    }
    const others = all.map(({ device }) => device).filter((d) => !attributes.has(deviceKey(d)));
    for (const [driver, devices] of Map.groupBy(others, (device) => device.driver)) {
      const slices = this.#options.api.listSlices(driver, { signal });
      for (const entry of await devicesFromSlices(slices, { driver, devices }))
        attributes.set(...entry);
    }
    return attributes;
  }

  /** A file that cannot be used is as none: the slices have the same. */
  async #fromFile(
    namespace: string,
    claim: AllocatedClaim,
    device: ClaimedDevice,
  ): Promise<NetworkDevice | undefined> {
    const { kubeletDir, logger } = this.#options;
    try {
      return await deviceFromMetadata({ kubeletDir, namespace, claim, device });
    } catch (error) {
      const fields = { err: error, driver: device.driver, claim: `${namespace}/${claim.name}` };
      logger.warn(fields, "the driver's metadata of a device cannot be read: its slices are");
      return undefined;
    }
  }

  #unavailable(
    error: ResourceApiUnavailableError,
  ): ReadonlyMap<string, readonly AllocatedDevice[]> {
    if (!this.#isKnownUnavailable) {
      const message = "the devices of resource claims are not known; those of device plugins are";
      this.#options.logger.warn({ err: error }, message);
    }
    this.#isKnownUnavailable = true;
    return new Map();
  }
}

/** A device without an ID is none that a plugin could attach. */
function addClaimed(
  list: DeviceList,
  parts: { claim: PodClaim; device: ClaimedDevice; attributes: DeviceAttributes },
): void {
  const { claim, device, attributes } = parts;
  const { id, resourceName = "" } = attributes.get(deviceKey(device)) ?? {};
  if (claim.name === undefined || id === undefined) return;
  const request: ClaimRequest = { claim: claim.name, request: device.request };
  list.add(resourceName, { id, source: sourceOf(claim), claims: [request] });
}

/** @throws CniError 100 for a device without an ID: its resource is what a network needs */
function addExtended(
  list: DeviceList,
  parts: {
    mapping: PodClaim["mappings"][number];
    claim: PodClaim;
    allocated: AllocatedClaim;
    attributes: DeviceAttributes;
  },
): void {
  const { mapping, claim, allocated, attributes } = parts;
  for (const device of allocated.devices) {
    if (device.request !== mapping.requestName) continue;
    const id = attributes.get(deviceKey(device))?.id;
    if (id === undefined) throw withoutId(device, mapping.resourceName);
    list.add(mapping.resourceName, { id, source: sourceOf(claim) });
  }
}

function sourceOf({ claimName }: PodClaim): string {
  return `ResourceClaim ${claimName}`;
}

function missing({ namespace, name }: Pod, { name: own, claimName }: PodClaim): CniError {
  const which = own === undefined ? "the claim for its extended resources" : `its claim "${own}"`;
  return new CniError(
    CniErrorCode.InvalidRequest,
    `pod ${namespace}/${name}: ${which} is the ResourceClaim ${namespace}/${claimName}, which does not exist`,
  );
}

function withoutId({ driver, pool, device }: ClaimedDevice, resourceName: string): CniError {
  return new CniError(
    CniErrorCode.InvalidRequest,
    `the pod was allocated the device ${device} of pool ${pool} for the extended resource ${resourceName}, and ` +
      `driver ${driver} publishes neither k8s.cni.cncf.io/deviceID nor resource.kubernetes.io/pciBusID of it`,
  );
}

function notInTime({ namespace, name }: Pod, cause: unknown): CniError {
  return new CniError(
    CniErrorCode.TryAgainLater,
    `cannot find out which devices the claims of pod ${namespace}/${name} were allocated: ${errorMessage(cause)}`,
    { cause },
  );
}
