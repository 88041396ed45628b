import { readFileSync } from "node:fs";
import { cpus, loadavg, release, totalmem } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import { type Case, casesFor, noop, real } from "./cases.ts";
import { type Contender, contendersOf } from "./contenders.ts";
import { measureGrowth } from "./growth.ts";
import { diskUse, hasStrace } from "./measure/disk.ts";
import { measure } from "./measure/measure.ts";
import { callMemory } from "./measure/memory.ts";
import { timelines } from "./measure/phases.ts";
import { installedSizes } from "./measure/sizes.ts";
import { type Bench, Daemons } from "./node.ts";
import { nads, otherNads, pods } from "./objects.ts";
import { findMultus } from "./peers/multus.ts";
import { namespaces, type Place, preparePlace } from "./place.ts";
import type { CaseResult, DiskUse, Results } from "./results.ts";
import { verify } from "./verify.ts";

/** As many as the kubelet allows. */
const podsOfNode = 110;

/** Runs all cases; BENCH_ROUNDS and QUICK say how much of each. */
export async function runBenchmark(): Promise<Results> {
  const quick = (process.env.QUICK ?? "") !== "";
  const effort = { quick, rounds: Number(process.env.BENCH_ROUNDS ?? (quick ? 8 : 200)) };
  const [loadBefore = 0] = loadavg();
  const multus = await findMultus();
  const place = await preparePlace();
  using _api = place.api;
  const bench = { place, multus, contenders: contendersOf(place, multus), effort };
  const { compared, memory } = await compareAll(bench);
  const { stdout: stateFileSystem } = await execa("stat", ["-f", "-c", "%T", place.dir]);
  return {
    date: new Date().toISOString(),
    ...effort,
    machine: machine(),
    loadBefore,
    stateFileSystem,
    versions: { Multus: multus?.version ?? "not compared", Node: process.version },
    ...compared,
    memory,
    sizes: await installedSizes(place, multus),
    growth: await measureGrowth(bench),
  };
}

type Compared = Pick<Results, "cases" | "phases" | "disk">;

async function compareAll(
  bench: Bench,
): Promise<{ compared: Compared; memory: Results["memory"] }> {
  const { place, multus, contenders, effort } = bench;
  const cases = casesFor(effort);
  await place.api.replace("network-attachment-definitions", nads(cases.map(({ set }) => set)));
  const daemons = await Daemons.start(place, multus, contenders);
  const memory = daemons.memory(contenders, "after its start");
  for (const contender of contenders) await verify(place.api, contender, real);
  const compared: CaseResult[] = [];
  for (const each of cases) compared.push(await compare(bench, each));
  memory.push(...daemons.memory(contenders, "after all cases"));
  const [plexus] = contenders.filter(({ id }) => id === "plexus") as [Contender];
  await settlePods(place, real);
  const phases = await timelines(plexus, { set: real, rounds: Math.ceil(effort.rounds / 4) });
  await settlePods(place, noop);
  const disk = await diskUses(bench, daemons);
  for (const contender of contenders.filter(({ id }) => id !== "direct")) {
    memory.push(...(await callMemory(place, contender, noop)));
  }
  await daemons.stop();
  return { compared: { cases: compared, phases, disk }, memory };
}

async function settlePods(place: Place, set: Case["set"], count = 1): Promise<void> {
  await place.api.replace("pods", pods(set, count));
  await sleep(500);
}

/** One case: its objects first, and time for the daemons' caches to learn of them. */
async function compare({ place, contenders, effort }: Bench, each: Case): Promise<CaseResult> {
  const seconds = Math.round(performance.now() / 1000);
  process.stderr.write(`bench: after ${seconds} s: ${each.title}\n`);
  const { id, title, set, crowd } = each;
  const allNads = [
    ...nads(casesFor(effort).map((other) => other.set)),
    ...otherNads(crowd?.nads ?? 0),
  ];
  if (crowd !== undefined) await place.api.replace("network-attachment-definitions", allNads);
  await settlePods(place, set, crowd?.pods ?? podsOfNode);
  const warmUp = Math.ceil(each.rounds / 10);
  return {
    id,
    title,
    rows: await measure(place.api, contenders, { ...each, warmUp, pods: namespaces }),
  };
}

async function diskUses({ place, contenders }: Bench, daemons: Daemons): Promise<DiskUse[]> {
  if (!(await hasStrace())) {
    process.stderr.write(
      "bench: strace is missing or may not trace: fsyncs and written bytes are not counted\n",
    );
    return [];
  }
  const uses: DiskUse[] = [];
  for (const contender of contenders) {
    const daemon = daemons.pid(contender.id);
    uses.push({
      name: contender.name,
      ...(await diskUse(place, { contender, daemon }, noop)),
    });
  }
  return uses;
}

function machine(): string {
  const model =
    /^model name\s*: (.*)$/m.exec(readFileSync("/proc/cpuinfo", "utf8"))?.[1] ??
    "unknown processor";
  const memory = Math.round(totalmem() / 2 ** 30);
  return `${cpus().length} cores of ${model}, ${memory} GiB, Linux ${release()}`;
}
