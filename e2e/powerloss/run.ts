import { join } from "node:path";
import { makeBuilds } from "../chaos/lab/builds.ts";
import { WorkerProcess } from "../chaos/lab/worker-process.ts";
import type { Task, TaskResult } from "./worker.ts";

const limitMs = 1_800_000;

/** Carries out tasks, two at a time, on one node each. Results have the order of the tasks. */
export async function runTasks(
  tasks: readonly Task[],
  onResult: (result: TaskResult) => void = () => undefined,
): Promise<TaskResult[]> {
  await using builds = await makeBuilds();
  const program = join(import.meta.dirname, "worker.ts");
  const waiting = [...tasks.entries()];
  const results: TaskResult[] = [];
  const work = async (): Promise<void> => {
    const args = [builds.fixtures];
    const worker = await WorkerProcess.start<Task, TaskResult>({ program, args, limitMs });
    try {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        const [number, task] = next;
        const result = await worker.run(task);
        results[number] = result;
        onResult(result);
      }
    } finally {
      await worker.end();
    }
  };
  await Promise.all([work(), ...(tasks.length > 1 ? [work()] : [])]);
  return results;
}
