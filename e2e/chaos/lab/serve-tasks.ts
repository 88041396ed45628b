/** What a worker says to the process that started it (worker-process.ts). */
export type WorkerMessage<Result> =
  | { readonly kind: "ready" }
  | { readonly kind: "result"; readonly result: Result }
  | { readonly kind: "failed"; readonly problem: string };

/** Carries out the tasks that come from the parent process, one after another, until it is gone. */
export function serveTasks<Task, Result>(
  prepare: () => Promise<(task: Task) => Promise<Result>>,
): void {
  const answer = (message: WorkerMessage<Result>): void => {
    process.send?.(message);
  };
  const fail = (error: unknown): void => {
    const problem = error instanceof Error ? (error.stack ?? error.message) : String(error);
    answer({ kind: "failed", problem });
  };
  process.on("disconnect", () => process.exit(0));
  prepare().then((carryOut) => {
    process.on("message", (task: Task) => {
      carryOut(task).then((result) => answer({ kind: "result", result }), fail);
    });
    answer({ kind: "ready" });
  }, fail);
}
