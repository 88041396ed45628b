import type { AllocatedDevice } from "#engine/ports/devices.ts";
import { summarize } from "#lib/parsing/document-error.ts";

/** How many devices a message names. */
const textMax = 10;

interface Wanted {
  readonly count: number;
  readonly isWanted: (device: AllocatedDevice) => boolean;
  readonly resource: string | undefined;
  readonly former: string | undefined;
}

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
   * The first wanted devices that no network has yet, at most `count`, of this resource or, without
   * one, any; the former one before all.
   */
  take({ count, isWanted, resource, former }: Wanted): readonly AllocatedDevice[] {
    const eligible =
      resource === undefined
        ? [...this.#allocated.values()].flat()
        : (this.#allocated.get(resource) ?? []);
    const free = eligible.filter((each) => !this.#taken.has(each) && isWanted(each));
    const isFormer = ({ id }: AllocatedDevice): number => Number(id === former);
    const devices = free.toSorted((a, b) => isFormer(b) - isFormer(a)).slice(0, count);
    for (const device of devices) this.#taken.add(device);
    return devices;
  }

  /** For messages: what the pod was allocated, taken or not. */
  get text(): string {
    const texts = [...this.#allocated].flatMap(([resource, devices]) =>
      devices.map(({ id, claims = [] }) => {
        const of = claims.map(({ claim, request }) => `request ${request} of claim ${claim}`);
        return `${id} (${[resource, ...of].filter(Boolean).join(", ")})`;
      }),
    );
    return texts.length === 0 ? "the pod has none" : `the pod has ${summarize(texts, textMax)}`;
  }

  /** How many devices of a resource there are, taken or not. */
  count(resource: string): number {
    return this.#allocated.get(resource)?.length ?? 0;
  }
}
