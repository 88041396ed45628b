import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import { repair } from "../chaos/injector.ts";
import type { Node } from "../chaos/node.ts";
import { Run } from "../chaos/run.ts";
import { parseScenario } from "../chaos/scenario.ts";
import { DiskRecorder } from "./disk/recorder.ts";
import { leasesName, type Recording } from "./power-loss.ts";
import type { Story } from "./stories.ts";

/** A story's operations on the state directory and on IPAM's leases. */
export interface RecordedStory extends Recording {
  readonly story: Story;
  /** The number of the story's pod. */
  readonly number: number;
  /** The number of operations that had been made when the first DEL came. */
  readonly del: number;
}

/** Of a slow disk: what does not wait for an fsync is done before it. */
const syncMs = 120;
/** Longer than updates of records wait before they are made durable, and take. */
const pauseMs = 1500;
const delLimit = 5;

/** Plays a story on the node with a disk that is recorded. The node's disk is as before afterwards. */
export async function recordStory(
  node: Node,
  story: Story,
  number: number,
): Promise<RecordedStory> {
  const { disk } = node.place;
  await node.contender.daemon?.kill();
  await using recorder = await DiskRecorder.mount(disk, { syncMs });
  await using _leases = await bindLeases(disk);
  await repair(node);
  const run = new Run(parseScenario(story.scenario), number, node);
  await run.prepare();
  const start = await recorder.mark("ADD");
  await run.call("ADD");
  if (run.scenario.repaired === "before DEL") await repair(node);
  if (story.pause === true) await sleep(pauseMs);
  const del = await recorder.mark("DEL");
  let outcome = await run.call("DEL");
  await repair(node);
  for (let n = 1; outcome.exitCode !== 0 && n < delLimit; n++) outcome = await run.call("DEL", []);
  await sleep(pauseMs);
  const missed = parseScenario(story.scenario).faults.filter((_, n) => !run.happened[n]);
  if (missed.length > 0) throw new Error(`${story.name}: a fault was not reached`);
  const left = (await run.leaks()).filter((line) => !line.includes(recorder.program));
  if (left.length > 0) throw new Error(`${story.name} left ${left.join(", ")}`);
  await run.cleanUp();
  await node.contender.daemon?.kill();
  return { story, number, start, del, operations: await recorder.operations() };
}

/** IPAM's directory, on the recorded disk. */
async function bindLeases(disk: string): Promise<AsyncDisposable> {
  mkdirSync(join(disk, leasesName));
  await execa("mount", ["--bind", join(disk, leasesName), "/var/lib/cni"]);
  return {
    async [Symbol.asyncDispose]() {
      await execa("umount", ["--lazy", "/var/lib/cni"]);
    },
  };
}
