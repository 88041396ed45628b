import type { AllocatedDevice } from "#engine/plan/devices/device-ports.ts";

/** Devices by resource in the order of insertion, each ID once. */
export class DeviceList {
  readonly #byResource = new Map<string, Map<string, AllocatedDevice>>();

  /** Two claims may share a device: it then belongs to both. */
  add(resourceName: string, device: AllocatedDevice): void {
    const devices = this.#byResource.get(resourceName) ?? new Map<string, AllocatedDevice>();
    const claims = [...(devices.get(device.id)?.claims ?? []), ...(device.claims ?? [])];
    devices.set(device.id, {
      ...(devices.get(device.id) ?? device),
      ...(claims.length === 0 ? {} : { claims }),
    });
    this.#byResource.set(resourceName, devices);
  }

  get byResource(): ReadonlyMap<string, readonly AllocatedDevice[]> {
    return new Map([...this.#byResource].map(([name, devices]) => [name, [...devices.values()]]));
  }
}
