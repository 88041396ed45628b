import type { ClaimSelection } from "#npwg/selection/network-selection.ts";
import type { AllocatedDevice, ClaimRequest, DeviceNetwork } from "./device-ports.ts";

/** Of a resource that has too few devices: how many there are, and how many networks need one. */
export interface DeviceShortage {
  readonly found: number;
  readonly needed: number;
}

/** The devices that a pod was allocated, until its networks have taken them. */
export class DevicePool {
  readonly #allocated: ReadonlyMap<string, readonly AllocatedDevice[]>;
  readonly #taken = new Set<AllocatedDevice>();

  constructor(allocated: ReadonlyMap<string, readonly AllocatedDevice[]>) {
    this.#allocated = allocated;
  }

  /** The device of this ID, of the network's resource or any; undefined when taken or absent. */
  takeNamed({ resourceName = "" }: DeviceNetwork, id: string): AllocatedDevice | undefined {
    const eligible =
      resourceName === "" ? [...this.#allocated.values()].flat() : this.#of(resourceName);
    return this.#take(eligible.find((device) => device.id === id && !this.#taken.has(device)));
  }

  /** A device of a claim, of the network's resource or none; undefined when all are taken. */
  takeClaimed(
    { resourceName = "" }: DeviceNetwork,
    { claim, request }: ClaimSelection,
  ): AllocatedDevice | undefined {
    const eligible =
      resourceName === ""
        ? [...this.#allocated.values()].flat()
        : [...this.#of(resourceName), ...this.#of("")];
    const isWanted = (each: ClaimRequest): boolean =>
      each.claim === claim && (request === undefined || each.request === request);
    return this.#take(
      eligible.find((device) => device.claims?.some(isWanted) && !this.#taken.has(device)),
    );
  }

  /** The first device of a resource that no network has yet. */
  takeNext(resourceName: string): AllocatedDevice | undefined {
    return this.#take(this.#of(resourceName).find((device) => !this.#taken.has(device)));
  }

  /** How the resource of a network comes that gets no device. */
  shortage(
    { resourceName = "" }: DeviceNetwork,
    networks: readonly DeviceNetwork[],
  ): DeviceShortage {
    const found = this.#of(resourceName).length;
    const needed = networks.filter((network) => network.resourceName === resourceName).length;
    return { found, needed };
  }

  #of(resourceName: string): readonly AllocatedDevice[] {
    return this.#allocated.get(resourceName) ?? [];
  }

  #take(device: AllocatedDevice | undefined): AllocatedDevice | undefined {
    if (device !== undefined) this.#taken.add(device);
    return device;
  }
}
