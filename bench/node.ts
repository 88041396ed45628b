import type { Daemon } from "../e2e/support/daemon.ts";
import type { Effort } from "./cases.ts";
import type { Contender, ContenderId } from "./contenders.ts";
import { memoryOf } from "./measure/accounting.ts";
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
    running.set("plexus", await startDaemon(place));
    if (multus !== undefined) running.set("multus-thick", await startThickMultus(place, multus));
    for (const { id, cpu } of contenders) {
      const pid = running.get(id)?.pid;
      if (pid !== undefined) cpu?.add(pid);
    }
    return new Daemons(running);
  }

  pid(id: ContenderId): number | undefined {
    return this.#running.get(id)?.pid;
  }

  memory(contenders: readonly Contender[], when: string): ProcessMemory[] {
    return contenders.flatMap(({ id, name }) => {
      const daemon = this.#running.get(id);
      if (daemon === undefined) return [];
      return [{ contender: name, process: daemon.name, when, memory: memoryOf(daemon.pid) }];
    });
  }

  /** Ends them as the kubelet does, and waits for it. */
  async stop(): Promise<void> {
    await Promise.all([...this.#running.values()].map((daemon) => daemon.stop("SIGKILL")));
  }
}
