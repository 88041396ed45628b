import { CniError } from "#cni/error.ts";
import type { PodDevices } from "#devices/ordered-devices.ts";
import {
  type AllocatedDevice,
  type DeviceLookup,
  type DeviceSource,
  ResourceApiUnavailableError,
} from "#engine/ports/devices.ts";
import { deadline } from "#lib/concurrency/deadline.ts";
import { errorMessage } from "#lib/error-message.ts";
import { nodeNameOf } from "#npwg/object-meta.ts";
import { type AllocatedClaim, type ClaimedDevice, deviceKey, readClaims } from "./claim.ts";
import { type PodClaim, podClaims } from "./pod-claims.ts";
import { type AttributeSources, readAttributes } from "./read-attributes.ts";
import type { DeviceAttributes } from "./slices.ts";

interface ClaimedDevicesOptions extends AttributeSources {
  /** The time limit of all reads for one pod. @default 10000 */
  readonly timeoutMs?: number;
}

/** The devices that dynamic resource allocation gave a pod, for claims and extended resources. */
export class ClaimedDevices implements DeviceSource {
  readonly #options: ClaimedDevicesOptions;
  #isKnownUnavailable = false;

  constructor(options: ClaimedDevicesOptions) {
    this.#options = options;
  }

  /** @throws CniError 11 when reading takes too long, 6 or 100 for an unusable claim */
  async devicesOf(lookup: DeviceLookup): Promise<PodDevices> {
    const object = await lookup.podObject();
    const claims = object === undefined ? [] : podClaims(object);
    if (object === undefined || claims.length === 0) return new Map();
    const { timeoutMs = 10_000 } = this.#options;
    using limit = deadline(timeoutMs, lookup.signal);
    try {
      const nodeName = nodeNameOf(object) ?? "";
      return await this.#read({ ...lookup, signal: limit.signal }, claims, nodeName);
    } catch (error) {
      if (error instanceof ResourceApiUnavailableError) return this.#unavailable(error);
      if (!limit.signal.aborted || error instanceof CniError) throw error;
      const { namespace, name } = lookup.pod;
      const problem = `cannot find out which devices the claims of pod ${namespace}/${name} were allocated`;
      const message = `${problem}: ${errorMessage(error)}`;
      throw new CniError("DevicesUnknown", message, { cause: error });
    }
  }

  async #read(
    { pod, networks, signal }: DeviceLookup,
    podClaims: readonly PodClaim[],
    nodeName: string,
  ): Promise<PodDevices> {
    const claims = await readClaims(this.#options.api, { pod, claims: podClaims, signal });
    const wanted = { namespace: pod.namespace, claims, nodeName, signal };
    const attributes = await readAttributes(this.#options, wanted);
    const needed = new Set(networks.map(({ resourceName }) => resourceName));
    return devicesByResource({ claims, attributes, needed });
  }

  #unavailable(error: ResourceApiUnavailableError): PodDevices {
    if (!this.#isKnownUnavailable) {
      const message = "the devices of resource claims are not known; those of device plugins are";
      this.#options.logger.warn({ err: error }, message);
    }
    this.#isKnownUnavailable = true;
    return new Map();
  }
}

interface KnownClaims {
  readonly claims: readonly AllocatedClaim[];
  readonly attributes: DeviceAttributes;
  /** Resources that the pod's networks need. Each of their devices must have an ID. */
  readonly needed: ReadonlySet<string | undefined>;
}

/**
 * The devices of a pod's claims that a plugin can attach, by the resource of their attributes or
 * the extended resource of their claim.
 * @throws CniError 100 for a device without ID of a needed extended resource
 */
function devicesByResource(known: KnownClaims): PodDevices {
  const entries = known.claims.flatMap((claim) => [
    ...claimedDevices(claim, known),
    ...extendedDevices(claim, known),
  ]);
  const byResource = Map.groupBy(entries, ([resourceName]) => resourceName);
  return new Map([...byResource].map(([name, own]) => [name, distinct(own)]));
}

type Entry = readonly [resourceName: string, device: AllocatedDevice];

function* claimedDevices(claim: AllocatedClaim, known: KnownClaims): Generator<Entry> {
  for (const device of claim.devices) {
    const { id, resourceName = "" } = known.attributes.get(deviceKey(device)) ?? {};
    if (claim.name === undefined || id === undefined) continue;
    const request = { claim: claim.name, request: device.request };
    yield [resourceName, { id, source: sourceOf(claim), claims: [request] }];
  }
}

function* extendedDevices(claim: AllocatedClaim, known: KnownClaims): Generator<Entry> {
  for (const { resourceName, requestName } of claim.mappings) {
    for (const device of claim.devices.filter(({ request }) => request === requestName)) {
      const id = known.attributes.get(deviceKey(device))?.id;
      if (id !== undefined) yield [resourceName, { id, source: sourceOf(claim) }];
      else if (known.needed.has(resourceName)) throw withoutId(device, resourceName);
    }
  }
}

function sourceOf({ claimName }: PodClaim): string {
  return `ResourceClaim ${claimName}`;
}

/** Each ID once: two claims may share a device, which then belongs to both. */
function distinct(entries: readonly Entry[]): AllocatedDevice[] {
  const devices = new Map<string, AllocatedDevice>();
  for (const [, device] of entries) {
    const before = devices.get(device.id);
    const claims = [...(before?.claims ?? []), ...(device.claims ?? [])];
    devices.set(device.id, { ...(before ?? device), ...(claims.length > 0 && { claims }) });
  }
  return [...devices.values()];
}

function withoutId({ driver, pool, device }: ClaimedDevice, resourceName: string): CniError {
  return new CniError(
    "UnusableDevice",
    `the pod was allocated the device ${device} of pool ${pool} for the extended resource ${resourceName}, and ` +
      `driver ${driver} publishes neither k8s.cni.cncf.io/deviceID nor resource.kubernetes.io/pciBusID of it`,
  );
}
