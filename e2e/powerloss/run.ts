import { join } from "node:path";
import { makeBuilds } from "../chaos/lab/builds.ts";
import { runOnWorkers } from "../chaos/lab/workers.ts";
import type { Task, TaskResult } from "./worker.ts";

/** Carries out tasks, two at a time, on one node each. Results have the order of the tasks. */
export async function runTasks(
  tasks: readonly Task[],
  onCompleted?: (task: Task, result: TaskResult) => void,
): Promise<TaskResult[]> {
  await using builds = await makeBuilds();
  return await runOnWorkers<Task, TaskResult>(tasks, {
    program: join(import.meta.dirname, "worker.ts"),
    args: [builds.fixtures],
    limitMs: 1_800_000,
    workers: 2,
    onCompleted,
  });
}
