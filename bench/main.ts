import { readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { execa } from "execa";
import { nad } from "../e2e/support/manifests.ts";
import { cniPluginDir, repositoryRoot } from "../e2e/support/paths.ts";
import { startPlexusd } from "../e2e/support/plexusd.ts";
import {
  bareDelegates,
  type Delegates,
  fromEnvironment,
  network,
  throughPlexus,
} from "./contenders.ts";
import { type Measured, measure, timelines } from "./measure.ts";
import { type Place, preparePlace, residentMiB, writeManifest } from "./place.ts";
import { formatReport, type Report } from "./report.ts";
import { Runner } from "./runner.ts";

/**
 * Measures Plexus against the delegates alone; `make bench`. It works in network, mount and process
 * namespaces of its own. `--write` puts the tables into docs/performance.md; BENCH_ROUNDS scales the effort, BENCH_OTHER
 * adds other CNI executables (docs/performance.md).
 */
const width = 20;
const rounds = Number(process.env.BENCH_ROUNDS ?? 200);
const docs = `${repositoryRoot}/docs/performance.md`;

/** Runs this program again inside of new namespaces. */
async function reExecute(): Promise<number> {
  const namespaces = [
    "--net",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "--propagation",
    "private",
  ];
  const command = [...namespaces, process.execPath, import.meta.filename, ...process.argv.slice(2)];
  const env = { PLEXUS_BENCH_INSIDE: "1" };
  return (await execa("unshare", command, { env, stdio: "inherit", reject: false })).exitCode ?? 1;
}

function delegateSets(place: Place): [noop: Delegates, real: Delegates] {
  const own = dirname(place.runner);
  const reference = cniPluginDir();
  const hostLocal = (net: number): object => ({
    type: "host-local",
    ranges: [[{ subnet: `10.${net}.0.0/16` }]],
  });
  return [
    { name: "noop", plugins: [{ type: "noop" }, { type: "noop" }], dirs: [own, own] },
    {
      name: "real",
      plugins: [
        { type: "ptp", ipam: hostLocal(1) } as { type: string },
        { type: "macvlan", master: "up0", mode: "bridge", ipam: hostLocal(2) } as { type: string },
      ],
      dirs: [reference, reference],
    },
  ];
}

function writeNetworks(place: Place, sets: readonly Delegates[]): void {
  const namespace = "bench";
  const nads = sets.map((set) => nad(`${set.name}-second`, network(set, 1), { namespace }));
  writeManifest(place, "networks", nads);
}

function writePods(place: Place, set: Delegates): void {
  const annotations = { "k8s.v1.cni.cncf.io/networks": `${set.name}-second` };
  const pods = Array.from({ length: width }, (_, n) => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: `pod-${n}`, namespace: "bench", annotations },
  }));
  writeManifest(place, "pods", pods);
}

async function compare(place: Place, runner: Runner, set: Delegates): Promise<Report["tables"]> {
  writePods(place, set);
  const others = set.name === "real" ? fromEnvironment(place, process.env.BENCH_OTHER) : [];
  const contenders = [bareDelegates(place, set), throughPlexus(place, set), ...others];
  const title =
    set.name === "real" ? "ptp and macvlan, both with host-local" : "two plugins that do nothing";
  const run = (at: number, times: number): Promise<Measured[]> =>
    measure(runner, contenders, { width: at, rounds: times, warmUp: Math.ceil(times / 10) });
  const one = await run(1, rounds);
  const many = await run(width, Math.ceil(rounds / 10));
  return [
    { title: `${title}, one pod at a time`, rows: one },
    { title: `${title}, ${width} pods at once`, rows: many },
  ];
}

async function main(): Promise<void> {
  const place = await preparePlace(width);
  const sets = delegateSets(place);
  writeNetworks(place, sets);
  const daemon = await startPlexusd(place);
  const memory = [{ when: "after its start", ...residentMiB(daemon.pid) }];
  using runner = new Runner(place.runner, `${place.dir}/jobs`);
  const tables: Report["tables"][number][] = [];
  for (const set of sets) tables.push(...(await compare(place, runner, set)));
  const traced = throughPlexus(place, sets[1], { PLEXUS_TRACE: "1" });
  const phases = await timelines(runner, traced, Math.ceil(rounds / 4));
  memory.push({ when: "after the benchmark", ...residentMiB(daemon.pid) });
  const fileSystem = await execa("stat", ["-f", "-c", "%T", place.stateDir]);
  const text = formatReport({ tables, phases, memory, stateFileSystem: fileSystem.stdout });
  process.stdout.write(text);
  if (process.argv.includes("--write")) writeDocs(text);
  await daemon.stop();
}

/** The tables stand between two marks; what is around them is written by hand. */
function writeDocs(text: string): void {
  const [before, rest] = readFileSync(docs, "utf8").split("<!-- bench -->\n");
  const after = rest?.split("<!-- /bench -->")[1];
  if (after === undefined) throw new Error(`${docs} lacks its <!-- bench --> marks`);
  writeFileSync(docs, `${before}<!-- bench -->\n\n${text}\n<!-- /bench -->${after}`);
}

if (process.getuid?.() !== 0) {
  process.stderr.write("bench: it makes network namespaces and so needs root\n");
  process.exit(1);
}
if (process.env.PLEXUS_BENCH_INSIDE !== "1") process.exit(await reExecute());
await main();
process.exit(0);
