import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { pause } from "#lib/concurrency/deadline.ts";
import type { Target } from "./target.ts";
import type { WorkerData, WorkerReport } from "./worker.ts";

/** The memory that reading may take, the fuzzer's own included. */
const maxHeapMb = 384;

/** A reader hangs if it makes no progress for this long. */
const hangMs = 60_000;

/** How a run ended. */
export interface FuzzResult {
  readonly runs: number;
  /** Inputs that were kept for the next run. */
  readonly found: number;
  readonly defect?: { readonly input: string; readonly reason: string };
}

/**
 * Fuzzes a target for so many milliseconds in a worker thread, whose memory is bounded and which can be
 * ended when it hangs.
 */
export async function fuzz(
  name: string,
  target: Target,
  options: { readonly milliseconds: number; readonly seed: number },
): Promise<FuzzResult> {
  const current = new SharedArrayBuffer(4 + 3 * target.maxLength);
  const data: WorkerData = {
    name,
    seed: options.seed,
    endsAt: Date.now() + options.milliseconds,
    current,
  };
  const worker = new Worker(new URL("./worker.ts", import.meta.url), {
    workerData: data,
    resourceLimits: { maxOldGenerationSizeMb: maxHeapMb },
  });
  let result: FuzzResult = { runs: 0, found: 0 };
  let progressAt = Date.now();
  worker.on("message", (report: WorkerReport) => {
    progressAt = Date.now();
    const { kind, ...rest } = report;
    result = kind === "progress" ? { ...result, ...rest } : { ...result, defect: report };
  });
  const broken = (reason: string): void => {
    result = { ...result, defect: { input: textIn(current), reason } };
  };
  worker.on("error", (error) => broken(String(error)));
  const ended = new AbortController();
  const exit = once(worker, "exit").finally(() => ended.abort());
  while (!ended.signal.aborted) {
    await pause(500, ended.signal);
    if (Date.now() - progressAt < hangMs) continue;
    broken(`not read after ${hangMs} ms`);
    await worker.terminate();
  }
  await exit;
  return result;
}

function textIn(current: SharedArrayBuffer): string {
  const length = Atomics.load(new Int32Array(current, 0, 1), 0);
  return Buffer.from(current, 4, length).toString();
}
