import type { Logger } from "#engine/ports/logger.ts";
import { WakeableSleep } from "#lib/concurrency/wakeable-sleep.ts";
import { errorMessage } from "#lib/error-message.ts";

const socketsMs = 5000;

/** A task that runs at the start and then regularly. */
export interface HousekeepingTask {
  /** For logs: `the sweep of the state directory`. */
  readonly name: string;
  readonly everyMs: number;
  run(): Promise<void>;
}

/** Recreates sockets whose files were removed, and opens servers whose ports were taken. */
export function socketsTask(
  ...sockets: readonly { ensureReachable(): Promise<void> }[]
): HousekeepingTask {
  return {
    name: "the sockets",
    everyMs: socketsMs,
    run: async () => {
      await Promise.all(sockets.map((socket) => socket.ensureReachable()));
    },
  };
}

/**
 * Runs tasks on timers. Runs of one task never overlap. A failed task runs again when it is due;
 * its error is logged when it changes.
 */
export class Housekeeping {
  readonly #logger: Logger;
  readonly #loops: readonly { readonly sleep: WakeableSleep; readonly ended: Promise<void> }[];
  #stopped = false;

  constructor(tasks: readonly HousekeepingTask[], logger: Logger) {
    this.#logger = logger;
    this.#loops = tasks.map((task) => {
      const sleep = new WakeableSleep(0);
      return { sleep, ended: this.#repeat(task, sleep) };
    });
  }

  /** Runs every task now; one that is running runs once more. */
  runNow(): void {
    for (const { sleep } of this.#loops) sleep.wake();
  }

  /** Starts no more tasks and waits for running ones. */
  async stop(): Promise<void> {
    this.#stopped = true;
    for (const { sleep } of this.#loops) sleep.close();
    await Promise.all(this.#loops.map(({ ended }) => ended));
  }

  async #repeat(task: HousekeepingTask, sleep: WakeableSleep): Promise<void> {
    let problem: string | undefined;
    while (!this.#stopped) {
      const before = problem;
      problem = await task.run().then(() => undefined, errorMessage);
      if (problem !== undefined && problem !== before) {
        this.#logger.warn({ task: task.name, error: problem }, "housekeeping failed");
      }
      if (!this.#stopped) await sleep.sleep(task.everyMs);
    }
  }
}
