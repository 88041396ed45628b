import { join } from "node:path";
import { Worker } from "node:worker_threads";
import type { WorkerOrder, WorkerReport } from "./worker.ts";

/** Runs histories in a separate thread. `tell` gets the number of those that have ended. @throws Error as the bundle, or when the thread fails */
export function runWorker(
  order: WorkerOrder,
  tell: (histories: number) => void = () => undefined,
): Promise<WorkerReport> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(join(import.meta.dirname, "worker.ts"), {
      workerData: order,
      // With the default of 16 MB, a tenth of the time goes to the garbage collector.
      resourceLimits: { maxYoungGenerationSizeMb: 64 },
    });
    worker.on("message", (message: WorkerReport | number) => {
      if (typeof message === "number") tell(message);
      else resolve(message);
    });
    worker.on("error", reject);
  });
}
