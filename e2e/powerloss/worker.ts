import { serveTasks } from "../chaos/lab/workers.ts";
import { type Node, prepareNode } from "../chaos/node.ts";
import type { DiskOperation } from "./disk/operations.ts";
import {
  everyRemains,
  type Recording,
  type Remains,
  type Survival,
  withoutSyncs,
} from "./power-loss.ts";
import { changeBootId, type Recovery, recover, restoreBootId } from "./reboot.ts";
import { type RecordedStory, recordStory } from "./record.ts";
import type { Story } from "./stories.ts";

/** A story whose power losses are tried. */
export interface Task {
  readonly story: Story;
  readonly survivals: readonly Survival[];
  readonly recoveries: readonly Recovery[];
  /** As if these had not been synced: ends with the first power loss that leaves something. */
  readonly without?: "files" | "directories";
}

/** A power loss after which something was left. */
export interface Leak {
  /** `operation 12 of 119 (rename c@eth0.record), in DEL`. */
  readonly moment: string;
  readonly survives: Survival;
  readonly recovery: Recovery;
  readonly left: readonly string[];
}

/** The result of a task. */
export interface TaskResult {
  readonly story: string;
  readonly operations: number;
  /** How many different disks there were. */
  readonly disks: Partial<Record<Survival, number>>;
  readonly recoveries: number;
  readonly leaks: readonly Leak[];
}

let pods = 0;

/** Records the story, then has the node recover from every power loss in it. */
async function carryOut(node: Node, task: Task): Promise<TaskResult> {
  const number = ++pods;
  const recorded = await recordStory(node, task.story, number);
  const recording =
    task.without === undefined
      ? recorded
      : { ...recorded, ...withoutSyncs(recorded, task.without) };
  const disks: Partial<Record<Survival, number>> = {};
  const leaks: Leak[] = [];
  let recoveries = 0;
  await changeBootId(node);
  for (const remains of everyRemains(recording, task.survivals)) {
    disks[remains.survives] = (disks[remains.survives] ?? 0) + 1;
    for (const recovery of task.recoveries) {
      recoveries++;
      const left = await recover(node, remains, { recovery, number });
      const moment = momentOf(recording, remains);
      if (left.length > 0) leaks.push({ moment, survives: remains.survives, recovery, left });
    }
    if (task.without !== undefined && leaks.length > 0) break;
  }
  await restoreBootId();
  await node.contender.daemon?.start();
  const operations = recording.operations.length - recording.start;
  return { story: task.story.name, operations, disks, recoveries, leaks };
}

function momentOf(
  { operations, start, edit, del }: Recording & Pick<RecordedStory, "edit" | "del">,
  { after }: Remains,
): string {
  const last = operations[after - 1];
  const call = after <= edit ? "ADD" : after <= del ? "edit" : "DEL";
  const number = `${after - start} of ${operations.length - start}`;
  return `operation ${number}, in ${call}: ${last === undefined ? "none" : describe(last)}`;
}

function describe(operation: DiskOperation): string {
  if (operation.kind === "mark") return operation.text;
  if (!("entry" in operation)) return `${operation.kind} inode ${operation.inode}`;
  const to = operation.kind === "rename" ? ` to ${operation.to.name}` : "";
  return `${operation.kind} ${operation.entry.name}${to} (inode ${operation.inode})`;
}

serveTasks<Task, TaskResult>(async () => {
  const [, , fixtures = ""] = process.argv;
  const node = await prepareNode({ contender: "Plexus", fixtures, previousShim: "" });
  return (task) => carryOut(node, task);
});
