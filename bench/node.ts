import type { Daemon } from "../e2e/support/daemon.ts";
import type { Contender, ContenderId } from "./contenders.ts";
import type { Effort } from "./effort.ts";
import { memoryOf } from "./measure/accounting.ts";
import { buildStandaloneFloor, isFloor, startFloor } from "./peers/floor.ts";
import type { Multus } from "./peers/multus.ts";
import { startThickMultus } from "./peers/multus-daemon.ts";
import { type Place, startDaemon } from "./place.ts";
import type { ProcessMemory } from "./results.ts";

/** One run on one node. */
export interface Bench {
  readonly place: Place;
  readonly multus: Multus | undefined;
  readonly contenders: readonly Contender[];
  readonly effort: Effort;
}

/** The daemons of the contenders that have one. */
export class Daemons {
  readonly #running: ReadonlyMap<ContenderId, Daemon>;

  private constructor(running: Map<ContenderId, Daemon>) {
    this.#running = running;
  }

  /** Starts them, each in its contender's control group. */
  static async start(
    place: Place,
    multus: Multus | undefined,
    contenders: readonly Contender[],
  ): Promise<Daemons> {
    const running = new Map<ContenderId, Daemon>();
    for (const { id, cpu } of contenders) {
      const daemon = await startFor(id, place, multus);
      if (daemon === undefined) continue;
      running.set(id, daemon);
      cpu?.add(daemon.pid);
    }
    return new Daemons(running);
  }

  pid(id: ContenderId): number | undefined {
    return this.#running.get(id)?.pid;
  }

  memory(contenders: readonly Contender[], when: string): ProcessMemory[] {
    return contenders.flatMap(({ id, name }) => {
      const daemon = this.#running.get(id);
      if (daemon === undefined || isFloor(id)) return [];
      return [{ contender: name, process: daemon.name, when, memory: memoryOf(daemon.pid) }];
    });
  }

  /** Ends them as the kubelet does, and waits for it. */
  async stop(): Promise<void> {
    await Promise.all([...this.#running.values()].map((daemon) => daemon.stop("SIGKILL")));
  }
}

async function startFor(
  id: ContenderId,
  place: Place,
  multus: Multus | undefined,
): Promise<Daemon | undefined> {
  const build = place.builds.find((each) => each.id === id);
  if (build !== undefined) return await startDaemon(place, build);
  if (isFloor(id)) return await startFloor(place, id);
  if (id === "floor-standalone") await buildStandaloneFloor(place);
  if (id === "multus-thick" && multus !== undefined) return await startThickMultus(place, multus);
  return undefined;
}
