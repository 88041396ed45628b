import { parentPort, workerData } from "node:worker_threads";
import type { LeftOut, Simulation } from "./entry.ts";
import type { Violation } from "./properties.ts";

/** What a worker does: histories of consecutive seeds, for a time or a number. */
export interface WorkerOrder {
  /** The bundle. */
  readonly file: string;
  readonly firstSeed: number;
  /** The distance of two seeds. */
  readonly step: number;
  readonly seconds?: number;
  readonly histories?: number;
  /** It ends after so many findings. @default 1 */
  readonly findings?: number;
}

/** A seed whose history lacks a property. */
export interface Finding {
  readonly seed: number;
  readonly violation: Violation;
  readonly leftOut: LeftOut;
}

/** What a worker has done. */
export interface WorkerReport {
  readonly histories: number;
  readonly events: number;
  readonly seconds: number;
  readonly findings: readonly Finding[];
}

const progressEvery = 1000;

/** Runs histories. `tell` gets the number of those that have ended, from time to time, and each finding. */
export async function runSeeds(
  order: WorkerOrder,
  tell: (news: number | Finding) => void,
): Promise<WorkerReport> {
  const { simulate, scenarioOf } = (await import(order.file)) as Simulation;
  const { firstSeed, step, seconds = Number.POSITIVE_INFINITY } = order;
  const most = order.histories ?? Number.POSITIVE_INFINITY;
  const started = performance.now();
  const elapsed = (): number => (performance.now() - started) / 1000;
  let [histories, events] = [0, 0];
  const findings: Finding[] = [];
  while (histories < most && elapsed() < seconds && findings.length < (order.findings ?? 1)) {
    const seed = firstSeed + histories * step;
    const end = await simulate(seed);
    histories += 1;
    events += end.events;
    if (histories % progressEvery === 0) tell(histories);
    if (end.violation === undefined) continue;
    const leftOut = await shorten({ simulate, scenarioOf }, seed, end.violation);
    const finding = { seed, violation: end.violation, leftOut };
    findings.push(finding);
    tell(finding);
  }
  return { histories, events, seconds: elapsed(), findings };
}

/** Leaves out of a history all that it does not need to lack the same property. */
async function shorten(
  { simulate, scenarioOf }: Simulation,
  seed: number,
  { property }: Violation,
): Promise<LeftOut> {
  const { pods, mischief } = scenarioOf(seed);
  const leftOut = { pods: [] as number[], mischief: [] as number[] };
  for (const [list, length] of [
    ["mischief", mischief.length],
    ["pods", pods.length],
  ] as const)
    for (let index = 0; index < length; index++) {
      const shorter = { ...leftOut, [list]: [...leftOut[list], index] };
      const { violation } = await simulate(seed, shorter);
      if (violation?.property === property) leftOut[list].push(index);
    }
  return leftOut;
}

if (parentPort !== null) {
  // Every error of a history would have one. A history that is printed shows them.
  Error.stackTraceLimit = 0;
  const port = parentPort;
  port.postMessage(await runSeeds(workerData as WorkerOrder, (news) => port.postMessage(news)));
}
