import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { memoryOf } from "./accounting.ts";
import type { Contender, ContenderId } from "./contenders.ts";
import type { Multus } from "./peers/multus.ts";
import { startMultusDaemon } from "./peers/multus-daemon.ts";
import { type Place, startDaemon } from "./place.ts";
import type { ProcessMemory } from "./results.ts";

/** The daemons of the contenders that have one. */
export class Daemons {
  readonly #running: ReadonlyMap<ContenderId, { process: ChildProcess; name: string }>;

  private constructor(running: Map<ContenderId, { process: ChildProcess; name: string }>) {
    this.#running = running;
  }

  /** Starts them, each in its contender's control group. */
  static async start(
    place: Place,
    multus: Multus | undefined,
    contenders: readonly Contender[],
  ): Promise<Daemons> {
    const running = new Map<ContenderId, { process: ChildProcess; name: string }>();
    running.set("plexus", { process: await startDaemon(place), name: "plexusd" });
    if (multus !== undefined) {
      const process = await startMultusDaemon(place, multus);
      running.set("multus-thick", { process, name: "multus-daemon" });
    }
    for (const { id, cpu } of contenders) {
      const pid = running.get(id)?.process.pid;
      if (pid !== undefined) cpu?.add(pid);
    }
    return new Daemons(running);
  }

  pid(id: ContenderId): number | undefined {
    return this.#running.get(id)?.process.pid;
  }

  memory(contenders: readonly Contender[], when: string): ProcessMemory[] {
    return contenders.flatMap(({ id, name }) => {
      const { process, name: program } = this.#running.get(id) ?? {};
      if (process === undefined || program === undefined) return [];
      const memory = memoryOf(process.pid as number);
      return [{ contender: name, process: program, when, memory }];
    });
  }

  /** Ends them as the kubelet does, and waits for it. */
  async stop(): Promise<void> {
    const running = [...this.#running.values()].map(({ process }) => process);
    await Promise.all(
      running.map(async (process) => {
        const exit = once(process, "exit");
        process.kill("SIGKILL");
        await exit;
      }),
    );
  }
}
