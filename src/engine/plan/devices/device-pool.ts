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

  /**
   * The first wanted devices that no network has yet, at most `count`, of these resources or, without
   * them, any.
   */
  take(
    count: number,
    isWanted: (device: AllocatedDevice) => boolean,
    resources: readonly string[] = [...this.#allocated.keys()],
  ): readonly AllocatedDevice[] {
    const eligible = resources.flatMap((resource) => this.#allocated.get(resource) ?? []);
    const free = eligible.filter((each) => !this.#taken.has(each) && isWanted(each));
    const devices = free.slice(0, count);
    for (const device of devices) this.#taken.add(device);
    return devices;
  }

  /** How many devices of a resource there are, taken or not. */
  count(resource: string): number {
    return this.#allocated.get(resource)?.length ?? 0;
  }
}
