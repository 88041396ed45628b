import { join } from "node:path";
import { Worker } from "node:worker_threads";
import type { Finding, WorkerOrder, WorkerReport } from "./worker.ts";

/** Runs histories in a separate thread. `tell` is as of `runSeeds`. @throws Error as the bundle, or when the thread fails */
export function runWorker(
  order: WorkerOrder,
  tell: (news: number | Finding) => void = () => undefined,
): Promise<WorkerReport> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(join(import.meta.dirname, "worker.ts"), {
      workerData: order,
      // With the default of 16 MB, a tenth of the time goes to the garbage collector.
      resourceLimits: { maxYoungGenerationSizeMb: 64 },
    });
    worker.on("message", (message: WorkerReport | number | Finding) => {
      if (typeof message === "object" && "findings" in message) resolve(message);
      else tell(message);
    });
    worker.on("error", reject);
  });
}
