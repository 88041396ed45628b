import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import { repair } from "../chaos/injector.ts";
import type { Node } from "../chaos/node.ts";
import { carryOut } from "../chaos/run.ts";
import { parseScenario } from "../chaos/scenario.ts";
import { DiskRecorder } from "./disk/recorder.ts";
import { leasesName, type Recording } from "./power-loss.ts";
import type { Story } from "./stories.ts";

/** A story's operations on the state directory and on IPAM's leases. */
export interface RecordedStory extends Recording {
  /** The number of the story's pod. */
  readonly number: number;
  /** The number of operations that had been made when the first DEL came. */
  readonly del: number;
  /** The same of an edit of the annotation, or of the first DEL if there was none. */
  readonly edit: number;
}

/** Of a slow disk: what does not wait for an fsync is done before it. */
const syncMs = 120;
/** Longer than updates of records wait before they are made durable, and take. */
const pauseMs = 1500;

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
  const scenario = parseScenario(story.scenario);
  let [start, edit, del] = [0, Number.POSITIVE_INFINITY, 0];
  const result = await carryOut(scenario, number, {
    ...node,
    harnessPid: recorder.pid,
    async beforeAdd() {
      start = await recorder.mark("ADD");
    },
    async beforeEdit() {
      if (story.pause === true) await sleep(pauseMs);
      edit = await recorder.mark("edit");
    },
    async beforeDel() {
      if (story.pause === true) await sleep(pauseMs);
      del = await recorder.mark("DEL");
    },
    async afterDel() {
      await sleep(pauseMs);
    },
  });
  if (result.happened.includes(false)) throw new Error(`${story.name}: a fault was not reached`);
  if (result.leaks.length > 0) throw new Error(`${story.name} left ${result.leaks.join(", ")}`);
  await node.contender.daemon?.kill();
  return { number, start, edit: Math.min(edit, del), del, operations: await recorder.operations() };
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
