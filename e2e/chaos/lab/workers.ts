import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { nodeBinary } from "../../support/paths.ts";
import { namespaceFlags } from "./place.ts";

/** What a worker says to the process that started it; neither is given when it is ready. */
interface Answer<Result> {
  readonly result?: Result;
  readonly problem?: string;
}

/** Carries out the tasks that come from the parent process, one after another, until it is gone. */
export function serveTasks<Task, Result>(
  prepare: () => Promise<(task: Task) => Promise<Result>>,
): void {
  const answer = (message: Answer<Result>): void => void process.send?.(message);
  const fail = (error: unknown): void => {
    answer({ problem: error instanceof Error ? (error.stack ?? error.message) : String(error) });
  };
  process.on("disconnect", () => process.exit(0));
  prepare().then((carryOut) => {
    process.on("message", (task: Task) => {
      carryOut(task).then((result) => answer({ result }), fail);
    });
    answer({});
  }, fail);
}

/** How tasks are carried out. */
export interface WorkerOptions<Task, Result> {
  /** A program that calls {@link serveTasks}. */
  readonly program: string;
  readonly args: readonly string[];
  /** The longest that a worker may take to start, or for one task. */
  readonly limitMs: number;
  readonly workers: number;
  /** No further task is begun then. */
  readonly stop?: AbortSignal | undefined;
  /** What counts as the result of a task that came to no end. @default all tasks end with the error */
  readonly unfinished?: (error: unknown) => Result;
  /** Called after each task, in the order in which they end. */
  readonly onCompleted?: ((task: Task, result: Result) => void) | undefined;
}

/**
 * Carries out tasks on processes in private namespaces. A worker whose task left something is replaced, so that no
 * task sees what another left. Returns the results of the tasks that were begun, in their order.
 */
export async function runOnWorkers<
  Task extends object,
  Result extends { readonly leaks: readonly unknown[] },
>(tasks: readonly Task[], options: WorkerOptions<Task, Result>): Promise<Result[]> {
  const waiting = tasks.entries();
  const results: Result[] = [];
  const unfinished = (error: unknown): Result => {
    if (options.unfinished === undefined) throw error;
    return options.unfinished(error);
  };
  const work = async (): Promise<void> => {
    let worker: Worker<Task, Result> | undefined;
    try {
      for (const [number, task] of waiting) {
        worker ??= new Worker<Task, Result>(options);
        const result = await worker.run(task).catch(unfinished);
        results[number] = result;
        options.onCompleted?.(task, result);
        if (result.leaks.length > 0) {
          await worker.end();
          worker = undefined;
        }
        if (options.stop?.aborted === true) return;
      }
    } finally {
      await worker?.end();
    }
  };
  await Promise.all(Array.from({ length: Math.min(options.workers, tasks.length) }, work));
  return results.filter((result) => result !== undefined);
}

class Worker<Task extends object, Result> {
  readonly #process: ChildProcess;
  readonly #limitMs: number;
  readonly #ended = new AbortController();
  readonly #ready: Promise<Result | undefined>;

  constructor({ program, args, limitMs }: WorkerOptions<Task, Result>) {
    const command = [...namespaceFlags, nodeBinary(), program, ...args];
    this.#process = spawn("unshare", command, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
    this.#process.once("exit", () => this.#ended.abort());
    this.#limitMs = limitMs;
    this.#ready = this.#next();
  }

  /** @throws Error when it fails, ends or takes too long */
  async run(task: Task): Promise<Result> {
    await this.#ready;
    this.#process.send(task);
    return (await this.#next()) as Result;
  }

  async end(): Promise<void> {
    const { signal } = this.#ended;
    if (signal.aborted) return;
    this.#process.kill("SIGKILL");
    await once(signal, "abort");
  }

  async #next(): Promise<Result | undefined> {
    const signal = AbortSignal.any([this.#ended.signal, AbortSignal.timeout(this.#limitMs)]);
    const [answer] = await once(this.#process, "message", { signal }).catch(() => {
      throw new Error(this.#ended.signal.aborted ? "a worker ended" : "a worker hangs");
    });
    const { result, problem } = answer as Answer<Result>;
    if (problem !== undefined) throw new Error(`a worker failed: ${problem}`);
    return result;
  }
}
