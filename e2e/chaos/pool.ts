import { join } from "node:path";
import type { Builds } from "./lab/builds.ts";
import { WorkerProcess } from "./lab/worker-process.ts";
import type { RunResult } from "./run.ts";
import type { Task } from "./worker.ts";

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

const limitMs = 120_000;

/**
 * Carries out tasks on workers with a node each. A worker whose run left something is replaced, so
 * that no run sees what another left.
 */
export async function runTasks(tasks: readonly Task[], options: PoolOptions): Promise<Completed[]> {
  const waiting = [...tasks];
  const next = (): Task | undefined =>
    options.stop?.aborted === true ? undefined : waiting.shift();
  const completed: Completed[] = [];
  const program = join(import.meta.dirname, "worker.ts");
  const args = [options.contender, options.builds.fixtures, options.builds.previousShim];
  const work = async (): Promise<void> => {
    let worker: WorkerProcess<Task, RunResult> | undefined;
    try {
      for (let task = next(); task !== undefined; task = next()) {
        let result: RunResult;
        try {
          worker ??= await WorkerProcess.start<Task, RunResult>({ program, args, limitMs });
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
