import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { nodeBinary } from "../support/paths.ts";
import type { Builds } from "./lab/builds.ts";
import { namespaceFlags } from "./lab/place.ts";
import type { RunResult } from "./run.ts";
import type { Task, WorkerMessage } from "./worker.ts";

/** A task with what became of it. */
export interface Completed extends Task {
  readonly result: RunResult;
}

/** What a pool of workers needs. */
export interface PoolOptions {
  readonly contender: string;
  readonly builds: Builds;
  readonly workers: number;
  /** No further task is begun then. */
  readonly stop?: AbortSignal | undefined;
  /** Called after each task, in the order in which they end. */
  readonly onCompleted: (completed: Completed) => void;
}

const taskLimitMs = 120_000;

/**
 * Carries out tasks on workers with a node each. A worker whose run left something is replaced, so
 * that no run sees what another left.
 */
export async function runTasks(tasks: readonly Task[], options: PoolOptions): Promise<Completed[]> {
  const waiting = [...tasks];
  const next = (): Task | undefined =>
    options.stop?.aborted === true ? undefined : waiting.shift();
  const completed: Completed[] = [];
  const work = async (): Promise<void> => {
    let worker: Worker | undefined;
    try {
      for (let task = next(); task !== undefined; task = next()) {
        let result: RunResult;
        try {
          worker ??= await Worker.start(options);
          result = await worker.run(task);
        } catch (error) {
          result = unfinished(error);
        }
        completed.push({ ...task, result });
        options.onCompleted({ ...task, result });
        if (result.leaks.length === 0) continue;
        await worker?.end();
        worker = undefined;
      }
    } finally {
      await worker?.end();
    }
  };
  await Promise.all(Array.from({ length: options.workers }, work));
  return completed.sort((a, b) => a.number - b.number);
}

/** A run that came to no end, as when a daemon does not start again, counts as one that left something. */
function unfinished(error: unknown): RunResult {
  const problem = error instanceof Error ? error.message : String(error);
  const leaks = [`the run could not be finished: ${problem}`];
  return { happened: [], add: "", dels: [], leaks, milliseconds: 0 };
}

/** One process in namespaces of its own. */
class Worker {
  readonly #process: ChildProcess;
  readonly #exited: Promise<void>;

  private constructor(child: ChildProcess) {
    this.#process = child;
    this.#exited = new Promise((resolve) => child.once("exit", () => resolve()));
  }

  static async start(options: PoolOptions): Promise<Worker> {
    const program = join(import.meta.dirname, "worker.ts");
    const { gate, previousShim } = options.builds;
    const command = [nodeBinary(), program, options.contender, gate, previousShim];
    const child = spawn("unshare", [...namespaceFlags, ...command], {
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    const worker = new Worker(child);
    try {
      await worker.#next("ready");
    } catch (error) {
      await worker.end();
      throw error;
    }
    return worker;
  }

  async run(task: Task): Promise<RunResult> {
    this.#process.send(task);
    const message = await this.#next("result");
    if (message.kind !== "result") throw new Error("the worker answered something else");
    return message.result;
  }

  async end(): Promise<void> {
    this.#process.kill("SIGKILL");
    await this.#exited;
  }

  async #next(expected: WorkerMessage["kind"]): Promise<WorkerMessage> {
    const child = this.#process;
    const answered = Promise.withResolvers<WorkerMessage>();
    const onExit = (): void => answered.reject(new Error("a worker ended"));
    const timer = setTimeout(() => answered.reject(new Error("a worker hangs")), taskLimitMs);
    child.once("message", (message) => answered.resolve(message as WorkerMessage));
    child.once("exit", onExit);
    try {
      const message = await answered.promise;
      if (message.kind === "failed") throw new Error(`a worker failed: ${message.problem}`);
      if (message.kind !== expected) throw new Error(`a worker sent ${message.kind}`);
      return message;
    } finally {
      clearTimeout(timer);
      child.off("exit", onExit);
    }
  }
}
