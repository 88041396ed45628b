import type { AllocatedDevice } from "#engine/ports/devices.ts";

/** The devices that a pod was allocated, until its networks have taken them. */
export class DevicePool {
  readonly #allocated: ReadonlyMap<string, readonly AllocatedDevice[]>;
  readonly #taken: Set<AllocatedDevice>;

  /** @param inUse the IDs of devices that are taken already */
  constructor(
    allocated: ReadonlyMap<string, readonly AllocatedDevice[]>,
    inUse: readonly string[],
  ) {
    this.#allocated = allocated;
    const devices = [...allocated.values()].flat();
    this.#taken = new Set(devices.filter(({ id }) => inUse.includes(id)));
  }

  /** The first wanted device that no network has yet, of these resources or, without them, any. */
  take(
    isWanted: (device: AllocatedDevice) => boolean,
    resources: readonly string[] = [...this.#allocated.keys()],
  ): AllocatedDevice | undefined {
    const eligible = resources.flatMap((resource) => this.#allocated.get(resource) ?? []);
    const device = eligible.find((each) => !this.#taken.has(each) && isWanted(each));
    if (device !== undefined) this.#taken.add(device);
    return device;
  }

  /** How many devices of a resource there are, taken or not. */
  count(resource: string): number {
    return this.#allocated.get(resource)?.length ?? 0;
  }
}
