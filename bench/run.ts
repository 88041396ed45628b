import { readFileSync } from "node:fs";
import { cpus, loadavg, release, totalmem } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { namespaces } from "./calls.ts";
import { type Case, casesFor, noop, real, sets } from "./cases.ts";
import { contendersOf } from "./contenders.ts";
import { measureCounts } from "./counts/counts.ts";
import { effortWanted } from "./effort.ts";
import { measureGrowth } from "./growth.ts";
import { diskUse } from "./measure/disk.ts";
import { measure } from "./measure/measure.ts";
import { callMemory } from "./measure/memory.ts";
import { timelines } from "./measure/phases.ts";
import { profilePlexusd, profileStandalone } from "./measure/profile.ts";
import { installedSizes } from "./measure/sizes.ts";
import { measureStart } from "./measure/start.ts";
import { hasStrace } from "./measure/strace.ts";
import { type Bench, Daemons } from "./node.ts";
import { nads, otherNads, pods } from "./objects.ts";
import { findMultus } from "./peers/multus.ts";
import { type Place, preparePlace } from "./place.ts";
import type { CaseResult, DiskUse, ProcessMemory, Results } from "./results.ts";
import { verify } from "./verify.ts";

/** As many as the kubelet allows. */
const podsOfNode = 110;

/** Runs all cases, or those that BENCH_CASES lists; BENCH_ROUNDS and QUICK say how much of each. */
export async function runBenchmark(): Promise<Results> {
  const effort = effortWanted();
  const { quick, rounds } = effort;
  const [loadBefore = 0] = loadavg();
  const multus = await findMultus();
  const place = await preparePlace();
  using _api = place.api;
  const bench = { place, multus, contenders: contendersOf(place, multus), effort };
  const { compared, memory } = await compareAll(bench);
  const { stdout: stateFileSystem } = await execa("stat", ["-f", "-c", "%T", place.dir]);
  const results = {
    date: new Date().toISOString(),
    quick,
    rounds,
    machine: machine(),
    loadBefore,
    stateFileSystem,
    versions: { Multus: multus?.version ?? "not compared", Node: process.version },
    ...compared,
    ...(effort.wants("profile") && (await profilesIn(bench))),
    memory,
    start: effort.wants("start") ? await measureStart(bench) : [],
    sizes: effort.wants("sizes") ? await installedSizes(place, multus) : [],
    ...(effort.wants("counts") && (await countsIn(bench))),
    growth: effort.wants("growth") ? await measureGrowth(bench) : [],
  };
  return { ...results, seconds: Math.round(performance.now() / 1000) };
}

type Compared = Pick<Results, "cases" | "phases" | "traces" | "disk">;

async function compareAll(
  bench: Bench,
): Promise<{ compared: Compared; memory: Results["memory"] }> {
  const { place, multus, contenders, effort } = bench;
  const cases = casesFor(effort);
  await place.api.replace("network-attachment-definitions", nads(sets));
  const daemons = await Daemons.start(place, multus, contenders);
  const withMemory = effort.wants("memory");
  const memory = withMemory ? daemons.memory(contenders, "after its start") : [];
  for (const contender of contenders) await verify(place.api, contender, real);
  const compared: CaseResult[] = [];
  for (const each of cases) compared.push(await compare(bench, each));
  if (withMemory) memory.push(...daemons.memory(contenders, "after all cases"));
  const traced = await tracedIn(bench);
  await settlePods(place, noop);
  const disk = effort.wants("disk") ? await diskUses(bench, daemons) : [];
  if (withMemory) memory.push(...(await callMemories(bench)));
  await daemons.stop();
  return { compared: { cases: compared, ...traced, disk }, memory };
}

async function tracedIn(bench: Bench): Promise<Pick<Results, "phases" | "traces">> {
  const { place, contenders, effort } = bench;
  const plexus = contenders.find(({ id }) => id === "plexus");
  if (plexus === undefined || !effort.wants("phases"))
    return { phases: { ADD: [], DEL: [] }, traces: {} };
  await settlePods(place, real);
  const rounds = Math.ceil(effort.rounds / 4);
  const { ADD, DEL } = await timelines(plexus, { set: real, rounds });
  return {
    phases: { ADD: ADD.phases, DEL: DEL.phases },
    traces: { ADD: ADD.trace, DEL: DEL.trace },
  };
}

async function countsIn(bench: Bench): Promise<Pick<Results, "counts">> {
  if (!(await hasStrace()) || !bench.contenders.some(({ id }) => id === "plexus")) return {};
  return { counts: await measureCounts(bench) };
}

async function profilesIn({
  place,
  contenders,
  effort: { rounds },
}: Bench): Promise<Pick<Results, "profile" | "standaloneProfile">> {
  const plexus = contenders.find(({ id }) => id === "plexus");
  const standalone = contenders.find(({ id }) => id === "plexus-standalone");
  await settlePods(place, real);
  return omitUndefined({
    profile: plexus && (await profilePlexusd(place, { contender: plexus, set: real, rounds })),
    standaloneProfile:
      standalone && (await profileStandalone(place, { contender: standalone, set: real, rounds })),
  });
}

async function callMemories({ place, contenders }: Bench): Promise<ProcessMemory[]> {
  const memory: ProcessMemory[] = [];
  for (const contender of contenders.filter(({ id }) => id !== "direct" && !id.startsWith("floor")))
    memory.push(...(await callMemory(place, contender, noop)));
  return memory;
}

async function settlePods(place: Place, set: Case["set"], count = 1): Promise<void> {
  await place.api.replace("pods", pods(set, count));
  await sleep(500);
}

/** One case: its objects first, and time for the daemons' caches to learn of them. */
async function compare({ place, contenders }: Bench, each: Case): Promise<CaseResult> {
  const seconds = Math.round(performance.now() / 1000);
  process.stderr.write(`bench: after ${seconds} s: ${each.title}\n`);
  const { id, title, set, crowd } = each;
  const allNads = [...nads(sets), ...otherNads(crowd?.nads ?? 0)];
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
