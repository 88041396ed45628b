import { copyFile } from "node:fs/promises";
import { cpus } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { HotPlugNode, type HotPlugPod } from "../../e2e/netns/hot-plug/hot-plug-node.ts";
import { markdownTable, replaceSection } from "../../e2e/support/markdown.ts";
import { cniPluginDir, repositoryRoot } from "../../e2e/support/paths.ts";
import { summarize } from "../measure/statistics.ts";

/*
 * The time from an edit of a running pod's annotation to the network-status that shows it. `--write`
 * puts the table into the page about performance.
 */

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "100" },
    write: { type: "boolean", default: false },
  },
});
/** Edited at the same time, for the second half of the table. */
const podsAtOnce = 20;
/** Two edits each: plexusd delays those that follow ten others, and one within 200 ms. */
const roundsOfPod = 5;
const pauseMs = 250;
/** Between two looks at the status, in milliseconds. */
const pollMs = 1;

interface Times {
  readonly plug: number[];
  readonly unplug: number[];
}

let pods = 0;

/** Milliseconds until the status shows these interfaces besides eth0. */
async function timeOf(
  pod: HotPlugPod,
  networks: string,
  shown: readonly string[],
): Promise<number> {
  const started = performance.now();
  pod.edit(networks);
  const isShown = (): boolean =>
    pod.status
      .slice(1)
      .map((each) => each.interface)
      .join() === shown.join();
  while (!isShown()) await sleep(pollMs);
  return performance.now() - started;
}

async function measure(): Promise<string> {
  await using host = await HotPlugNode.create();
  // As they are, without the notes for tests.
  for (const type of ["ptp", "bridge", "host-local"])
    await copyFile(join(cniPluginDir(), type), join(host.binDir, type));
  await host.startAgent();
  const rows = [];
  for (const count of [1, podsAtOnce]) rows.push(...(await measurePods(host, count)));
  const table = markdownTable(["edit, ms", "p50", "p90", "p99"], rows);
  return `${values.rounds} edits of a pod, ${cpus().length} processors:\n\n${table}`;
}

/** Rows for edits of so many pods at the same time. */
async function measurePods(host: HotPlugNode, count: number): Promise<string[][]> {
  const times: Times = { plug: [], unplug: [] };
  await measureRounds(host, count, { plug: [], unplug: [] });
  while (times.plug.length < Number(values.rounds) * count) await measureRounds(host, count, times);
  const of = count === 1 ? "" : `, ${count} pods at once`;
  return [
    row(`a network is plugged${of}`, times.plug),
    row(`a network is unplugged${of}`, times.unplug),
  ];
}

/** Adds the times of as many edits as new pods may have in a row. */
async function measureRounds(host: HotPlugNode, count: number, times: Times): Promise<void> {
  const names = Array.from({ length: count }, () => `web-${pods++}`);
  const all = await Promise.all(names.map((name) => host.pod(name, "front")));
  const ofAll = async (networks: string, shown: readonly string[]): Promise<number[]> => {
    await sleep(pauseMs);
    return Promise.all(all.map((pod) => timeOf(pod, networks, shown)));
  };
  for (let round = 0; round < roundsOfPod; round++) {
    times.plug.push(...(await ofAll("front,back@net2", ["net1", "net2"])));
    times.unplug.push(...(await ofAll("front", ["net1"])));
  }
  for (const { sandbox } of all) await sandbox.mustDel();
}

function row(name: string, all: readonly number[]): string[] {
  const { p50, p90, p99 } = summarize(all);
  return [name, ...[p50, p90, p99].map((ms) => ms.toFixed(0))];
}

const text = await measure();
process.stdout.write(`${text}\n`);
if (values.write)
  await replaceSection(join(repositoryRoot, "docs/operations/performance.md"), "hot-plug", text);
