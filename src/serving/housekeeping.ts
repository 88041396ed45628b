import type { Logger } from "#engine/ports.ts";
import { WakeableSleep } from "#lib/concurrency/wakeable-sleep.ts";
import { errorMessage } from "#lib/error-message.ts";

/** Something that is done when plexusd starts and then now and then. */
export interface HousekeepingTask {
  /** For logs: `the sweep of the state directory`. */
  readonly name: string;
  readonly everyMs: number;
  run(): Promise<void>;
}

/**
 * Everything that plexusd does beside serving calls, on timers. A task's runs never overlap, and one
 * that fails is tried again when it is due the next time; what is wrong is logged when it changes.
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

  /** Has every task run now, or once more where it is running. */
  runNow(): void {
    for (const { sleep } of this.#loops) sleep.wake();
  }

  /** Lets running tasks end; none is started any more. */
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
