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
/** Between two looks at the status, in milliseconds. */
const pollMs = 1;

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
  const names = Array.from({ length: count }, (_, index) => `web-${count}-${index}`);
  const pods = await Promise.all(names.map((name) => host.pod(name, "front")));
  const ofAll = (networks: string, shown: readonly string[]): Promise<number[]> =>
    Promise.all(pods.map((pod) => timeOf(pod, networks, shown)));
  const times = { plug: [] as number[], unplug: [] as number[] };
  for (let round = -5; round < Number(values.rounds); round++) {
    const plug = await ofAll("front,back@net2", ["net1", "net2"]);
    const unplug = await ofAll("front", ["net1"]);
    if (round < 0) continue;
    times.plug.push(...plug);
    times.unplug.push(...unplug);
  }
  for (const { sandbox } of pods) await sandbox.mustDel();
  const of = count === 1 ? "" : `, ${count} pods at once`;
  return [
    row(`a network is plugged${of}`, times.plug),
    row(`a network is unplugged${of}`, times.unplug),
  ];
}

function row(name: string, all: readonly number[]): string[] {
  const { p50, p90, p99 } = summarize(all);
  return [name, ...[p50, p90, p99].map((ms) => ms.toFixed(0))];
}

const text = await measure();
process.stdout.write(`${text}\n`);
if (values.write)
  await replaceSection(join(repositoryRoot, "docs/operations/performance.md"), "hot-plug", text);
