import { CniError } from "#cni/error.ts";
import {
  type AllocatedDevice,
  type DeviceLookup,
  type DeviceSource,
  ResourceApiUnavailableError,
} from "#engine/plan/devices/device-ports.ts";
import { nodeNameOf } from "#engine/plan/pod/pod-object.ts";
import type { Pod } from "#engine/ports.ts";
import { deadline } from "#lib/concurrency/deadline.ts";
import { errorMessage } from "#lib/error-message.ts";
import { devicesByResource } from "./devices-by-resource.ts";
import { type PodClaim, podClaims } from "./pod-claims.ts";
import { type AttributeSources, readAttributes } from "./read-attributes.ts";
import { readClaims } from "./read-claims.ts";

export interface ClaimedDevicesOptions extends AttributeSources {
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
  async devicesOf(lookup: DeviceLookup): Promise<ReadonlyMap<string, readonly AllocatedDevice[]>> {
    const object = await lookup.podObject();
    const claims = object === undefined ? [] : podClaims(object);
    if (claims.length === 0) return new Map();
    const { timeoutMs = 10_000 } = this.#options;
    using limit = deadline(timeoutMs, lookup.signal);
    try {
      const nodeName = object === undefined ? undefined : nodeNameOf(object);
      return await this.#read(lookup, { claims, nodeName, signal: limit.signal });
    } catch (error) {
      if (error instanceof ResourceApiUnavailableError) return this.#unavailable(error);
      if (!limit.signal.aborted || error instanceof CniError) throw error;
      throw notInTime(lookup.pod, error);
    }
  }

  async #read(
    { pod, networks }: DeviceLookup,
    of: { claims: readonly PodClaim[]; nodeName: string | undefined; signal: AbortSignal },
  ): Promise<ReadonlyMap<string, readonly AllocatedDevice[]>> {
    const { nodeName = "", signal } = of;
    const claims = await readClaims(this.#options.api, { pod, claims: of.claims, signal });
    const allocated = claims.map((claim) => claim.allocated);
    const { namespace } = pod;
    const attributes = await readAttributes(this.#options, {
      namespace,
      claims: allocated,
      nodeName,
      signal,
    });
    const needed = new Set(networks.map(({ resourceName }) => resourceName));
    return devicesByResource({ claims, attributes, needed });
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

function notInTime({ namespace, name }: Pod, cause: unknown): CniError {
  return new CniError(
    "DevicesUnknown",
    `cannot find out which devices the claims of pod ${namespace}/${name} were allocated: ${errorMessage(cause)}`,
    { cause },
  );
}
