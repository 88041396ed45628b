import {
  type PoolOptions,
  type PoolWorker,
  type TestProject,
  ThreadsPoolWorker,
} from "vitest/node";

/** So that what mutants leave behind stays small. */
const runsMax = 100;

let kept: KeptThread | undefined;

/**
 * Lets mutants share a thread: to load the modules takes longer than most tests. Those of code
 * that runs when a module loads get a separate thread, and so do all with
 * PLEXUS_OWN_THREADS=1.
 */
export function keepThreads({ config }: TestProject): void {
  const createPoolWorker = (options: PoolOptions): PoolWorker => {
    const { mode, mutantActivation } = Object(options.project.getProvidedContext());
    const isAlone = process.env.PLEXUS_OWN_THREADS === "1" || mutantActivation === "static";
    if (mode !== "mutant" || isAlone) return new ThreadsPoolWorker(options);
    kept ??= new KeptThread(options);
    return kept;
  };
  config.poolRunner = { name: "kept-thread", createPoolWorker };
  config.pool = config.poolRunner.name;
}

class KeptThread extends ThreadsPoolWorker {
  readonly #listeners: ((message: unknown) => void)[] = [];
  #runs = 0;
  #isStarted = false;
  #isStopping = false;

  override async start(): Promise<void> {
    if (!this.#isStarted) await super.start();
    this.#isStarted = true;
    this.#isStopping = false;
    this.#runs++;
  }

  override on(event: string, callback: (arg: unknown) => void): void {
    if (event === "message") this.#listeners.push(callback);
    super.on(event, callback);
  }

  override send(message: Parameters<PoolWorker["send"]>[0]): void {
    if (message.type === "stop") {
      this.#isStopping = true;
      const stopped = { type: "stopped", __vitest_worker_response__: true };
      for (const listener of this.#listeners) listener(stopped);
    } else super.send(message);
  }

  override async stop(): Promise<void> {
    for (const listener of this.#listeners.splice(0)) super.off("message", listener);
    if (this.#isStopping && this.#runs < runsMax) return;
    kept = undefined;
    await super.stop();
  }
}
