import { parentPort, workerData } from "node:worker_threads";
import fc from "fast-check";
import { keepFound, readCorpus } from "./corpus.ts";
import { inputsOf } from "./inputs.ts";
import { judge } from "./judge.ts";
import { takeNovelty } from "./target.ts";
import { targets } from "./targets/targets.ts";

/** What a worker is started with. */
export interface WorkerData {
  readonly name: string;
  readonly seed: number;
  /** As of Date.now(). */
  readonly endsAt: number;
  /** The length of the input that is being read, as an Int32, and its UTF-8 bytes. */
  readonly current: SharedArrayBuffer;
}

/** A report of a worker: its progress, or the defect that ends it. */
export type WorkerReport =
  | { readonly kind: "progress"; readonly runs: number; readonly found: number }
  | { readonly kind: "defect"; readonly input: string; readonly reason: string };

/* Fuzzes one target until the time is up, in a thread whose memory is bounded. */

const { name, seed, endsAt, current } = workerData as WorkerData;
const target = targets[name];
if (target === undefined) throw new Error(`no fuzz target ${name}`);
const corpus = readCorpus(name);
const length = new Int32Array(current, 0, 1);
const bytes = Buffer.from(current, 4);
/** A larger corpus, and longer inputs, would slow down every run for little. */
const maxCorpus = 300;
const maxFoundLength = 4096;

let runs = 0;
let found = 0;

async function run(input: string): Promise<void> {
  runs++;
  // Beforehand, as an input that exhausts memory or never ends leaves no time for it.
  Atomics.store(length, 0, bytes.write(input));
  if (target !== undefined) await judge(target, input);
}

/** Reads an input, and keeps it where it was refused in a new way. */
async function runAndKeep(input: string): Promise<void> {
  await run(input);
  if (!takeNovelty() || input.length > maxFoundLength || corpus.length >= maxCorpus) return;
  found++;
  corpus.push(input);
  keepFound(name, input);
}

function report(message: WorkerReport): void {
  parentPort?.postMessage(message);
}

for (const input of corpus) await run(input);
takeNovelty();
for (let batch = 0; Date.now() < endsAt; batch++) {
  const checked = await fc.check(fc.asyncProperty(inputsOf(target, corpus), runAndKeep), {
    seed: seed + batch,
    numRuns: 200,
    interruptAfterTimeLimit: 20_000,
    endOnFailure: false,
  });
  report({ kind: "progress", runs, found });
  if (!checked.failed || checked.counterexample === null) continue;
  const [input] = checked.counterexample;
  report({ kind: "defect", input, reason: String(checked.errorInstance) });
  break;
}
