import type {
  AllocatedDevice,
  ClaimRequest,
  DeviceLookup,
  DeviceSource,
} from "#engine/ports/devices.ts";

/** Devices that a test allocates, to whichever pod asks. */
export class FakeDevices implements DeviceSource {
  readonly #devices = new Map<string, AllocatedDevice[]>();
  /** What was asked, in order. */
  readonly lookups: DeviceLookup[] = [];
  readonly source: string;
  /** Thrown by every lookup, when set. */
  failure: Error | undefined;

  constructor(source = "the kubelet") {
    this.source = source;
  }

  allocate(resourceName: string, ...ids: string[]): this {
    this.#devices.set(
      resourceName,
      ids.map((id) => ({ id, source: this.source })),
    );
    return this;
  }

  /** Has allocated the devices of a resource for these requests of claims, in order. */
  claim(resourceName: string, ...requests: ClaimRequest[]): this {
    const devices = this.#devices.get(resourceName) ?? [];
    const claimed = devices.map((device, i) => ({ ...device, claims: requests.slice(i, i + 1) }));
    this.#devices.set(resourceName, claimed);
    return this;
  }

  async devicesOf(lookup: DeviceLookup): Promise<ReadonlyMap<string, readonly AllocatedDevice[]>> {
    this.lookups.push(lookup);
    if (this.failure !== undefined) throw this.failure;
    return this.#devices;
  }
}
