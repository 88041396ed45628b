import { join } from "node:path";
import { Worker } from "node:worker_threads";
import type { WorkerOrder, WorkerReport } from "./worker.ts";

/** Runs histories in a separate thread. @throws Error as the bundle, or when the thread fails */
export function runWorker(order: WorkerOrder): Promise<WorkerReport> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(join(import.meta.dirname, "worker.ts"), { workerData: order });
    worker.on("message", resolve);
    worker.on("error", reject);
  });
}
