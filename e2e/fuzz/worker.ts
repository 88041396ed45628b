import { parentPort, workerData } from "node:worker_threads";
import fc from "fast-check";
import { keepFound, readCorpus } from "./corpus.ts";
import { inputsOf } from "./inputs.ts";
import { judge } from "./judge.ts";
import { takeNovelty } from "./novelty.ts";
import { targets } from "./targets/targets.ts";
import type { WorkerData, WorkerReport } from "./worker-data.ts";

/* Fuzzes one target until the time is up, in a thread whose memory is bounded. */

const { name, seed, endsAt, current } = workerData as WorkerData;
const target = targets[name];
if (target === undefined) throw new Error(`no fuzz target ${name}`);
const corpus = readCorpus(name);
const length = new Int32Array(current, 0, 1);
const bytes = Buffer.from(current, 4);
/** More, and longer ones, would slow down every run for little. */
const maxFound = 500;
const maxFoundLength = 4096;

let runs = 0;
let found = 0;

async function run(input: string): Promise<void> {
  runs++;
  // Beforehand, as an input that exhausts memory or never ends leaves no time for it.
  Atomics.store(length, 0, bytes.write(input));
  if (target !== undefined) await judge(target, input);
  if (!takeNovelty() || input.length > maxFoundLength || found >= maxFound) return;
  found++;
  corpus.push(input);
  keepFound(name, input);
}

function report(message: WorkerReport): void {
  parentPort?.postMessage(message);
}

for (const input of [...corpus]) await run(input);
for (let batch = 0; Date.now() < endsAt; batch++) {
  const checked = await fc.check(fc.asyncProperty(inputsOf(target, corpus), run), {
    seed: seed + batch,
    numRuns: 200,
    interruptAfterTimeLimit: 20_000,
    endOnFailure: false,
  });
  report({ kind: "progress", runs, found });
  if (!checked.failed || checked.counterexample === null) continue;
  const [input] = checked.counterexample;
  report({ kind: "defect", input, reason: String(checked.errorInstance), seed: checked.seed });
  break;
}
