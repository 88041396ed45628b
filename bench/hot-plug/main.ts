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
  const pod = await host.pod("web", "front");
  const times = { plug: [] as number[], unplug: [] as number[] };
  for (let round = -5; round < Number(values.rounds); round++) {
    const plug = await timeOf(pod, "front,back@net2", ["net1", "net2"]);
    const unplug = await timeOf(pod, "front", ["net1"]);
    if (round < 0) continue;
    times.plug.push(plug);
    times.unplug.push(unplug);
  }
  await pod.sandbox.mustDel();
  const row = (name: string, all: readonly number[]): string[] => {
    const { p50, p90, p99 } = summarize(all);
    return [name, ...[p50, p90, p99].map((ms) => ms.toFixed(0))];
  };
  const rows = [row("a network is plugged", times.plug), row("it is unplugged", times.unplug)];
  const table = markdownTable(["edit, ms", "p50", "p90", "p99"], rows);
  return `${values.rounds} rounds, ${cpus().length} processors:\n\n${table}`;
}

const text = await measure();
process.stdout.write(`${text}\n`);
if (values.write)
  await replaceSection(join(repositoryRoot, "docs/operations/performance.md"), "hot-plug", text);
