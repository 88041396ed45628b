import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { execa } from "execa";
import { plexus } from "../chaos/contenders/plexus.ts";
import { type Parts, repair } from "../chaos/injector.ts";
import { makeBuilds } from "../chaos/lab/builds.ts";
import { Gates } from "../chaos/lab/gates.ts";
import { readHostState } from "../chaos/lab/host-state.ts";
import { namespaceFlags, preparePlace } from "../chaos/lab/place.ts";
import { pidsOf } from "../chaos/run.ts";
import { startApiServer } from "../support/api-server.ts";
import { differences } from "../support/host-state.ts";
import { list } from "../support/networks.ts";
import { nad } from "../support/node/manifests.ts";
import { repositoryRoot } from "../support/paths.ts";
import { cycle, soakNetworks } from "./cycle.ts";
import { formatVerdicts, judge } from "./judge.ts";
import { type Sample, takeSample, toCsv } from "./sample.ts";

/**
 * Attaches and detaches pods of five networks, 20 at a time, every second with a fault. While a pod
 * runs, one of its networks is unplugged and plugged again. Fails
 * when what plexusd holds grows or anything is left on the node: `make soak` (docs/operations/reliability.md).
 */
const { values } = parseArgs({
  options: {
    cycles: { type: "string", default: "3000" },
    width: { type: "string", default: "20" },
    seed: { type: "string", default: "1" },
    csv: { type: "string", default: join(repositoryRoot, ".cache/soak.csv") },
    fixtures: { type: "string" },
  },
});
const metrics = "127.0.0.1:19599";
const sampleEveryMs = 500;
/** Room for as many tombstones as plexusd keeps (src/records/sweep.ts), and for what else there is. */
const diskInodes = 8192;
/** The API fails for a moment once in so many cycles. */
const apiFaultEvery = 100;

/** Runs this program again in private namespaces. */
async function reExecute(): Promise<number> {
  await using builds = await makeBuilds();
  const args = [process.execPath, import.meta.filename, ...process.argv.slice(2)];
  const command = [...namespaceFlags, ...args, "--fixtures", builds.fixtures];
  return (await execa("unshare", command, { stdio: "inherit", reject: false })).exitCode ?? 1;
}

function leasesOf(net: number): object {
  return { type: "host-local", ranges: [[{ subnet: `10.${net}.0.0/16` }]] };
}

async function prepare(fixtures: string): Promise<Parts> {
  const place = await preparePlace(fixtures, diskInodes);
  const api = await startApiServer(join(place.root, "etc"));
  soakNetworks.forEach(({ nad: name }, n) => {
    const plugin = { type: "macvlan", master: "up0", mode: "bridge", ipam: leasesOf(80 + n) };
    api.put("network-attachment-definitions", nad(name, list(name, plugin)));
  });
  const defaultNetwork = list("soak", { type: "ptp", ipam: leasesOf(79) });
  const contender = await plexus(
    { place, api, previousShim: "" },
    { http: metrics, defaultNetwork, delegateTimeoutMs: 3000, hurried: false },
  );
  const parts = { place, api, contender, gates: new Gates(place) };
  await repair(parts);
  await contender.agent?.start();
  return parts;
}

/** Makes all cycles and returns what was measured meanwhile. */
async function run(node: Parts, total: number): Promise<Sample[]> {
  const pid = node.contender.daemon?.pid ?? 0;
  const samples: Sample[] = [];
  const started = performance.now();
  let [next, completed, isOver] = [0, 0, false];
  const lane = async (): Promise<void> => {
    while (next < total) {
      const number = next++;
      if (number % apiFaultEvery === apiFaultEvery - 1) void failApi(node, number);
      await cycle(node, values.seed, number);
      completed++;
    }
  };
  const sample = async (): Promise<void> => {
    const seconds = (performance.now() - started) / 1000;
    const url = `http://${metrics}/metrics`;
    samples.push(await takeSample(pid, url, { seconds, cycles: completed }));
  };
  const measure = async (): Promise<void> => {
    for (; !isOver; await sleep(sampleEveryMs)) await sample();
  };
  const measuring = measure();
  await Promise.all(Array.from({ length: Number(values.width) }, lane));
  isOver = true;
  await measuring;
  await sample();
  return samples;
}

/** For half a second the API answers with errors, not at all, or is not there, in turns. */
async function failApi(node: Parts, number: number): Promise<void> {
  const ways = ["500", "hang", "gone"] as const;
  await node.api.fail(ways[Math.floor(number / apiFaultEvery) % ways.length] ?? "500");
  await sleep(500);
  await node.api.recover();
}

async function soak(fixtures: string): Promise<number> {
  const node = await prepare(fixtures);
  await cycle(node, values.seed, 1_000_000);
  const before = await readHostState(node.place, await pidsOf(node.contender));
  const samples = await run(node, Number(values.cycles));
  mkdirSync(dirname(values.csv), { recursive: true });
  writeFileSync(values.csv, toCsv(samples));
  await sleep(1000);
  const left = differences(before, await readHostState(node.place, await pidsOf(node.contender)));
  const verdicts = judge(samples);
  const seconds = samples.at(-1)?.seconds.toFixed(0);
  console.log(
    `${values.cycles} cycles, ${values.width} at a time, in ${seconds} s; ${values.csv}\n`,
  );
  console.log(formatVerdicts(verdicts));
  console.log(left.length === 0 ? "\nnothing was left" : `\nleft:\n  ${left.join("\n  ")}`);
  return left.length > 0 || verdicts.some((v) => v.outcome === "grows") ? 1 : 0;
}

process.exit(await (values.fixtures === undefined ? reExecute() : soak(values.fixtures)));
