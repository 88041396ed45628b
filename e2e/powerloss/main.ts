import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { repositoryRoot } from "../support/paths.ts";
import { type Survival, survivals } from "./power-loss.ts";
import { type Recovery, recoveries } from "./reboot.ts";
import { describeResult, writeReport } from "./report.ts";
import { runTasks } from "./run.ts";
import { stories } from "./stories.ts";
import type { TaskResult } from "./worker.ts";

/**
 * Power losses at every operation on the disk: `make powerloss` (docs/operations/reliability.md). --story, which
 * can be repeated, takes only those whose names contain it. What was found is in .cache/powerloss.json,
 * or --out; --write puts the table into docs/operations/reliability.md, with --from that of earlier runs.
 */
const { values } = parseArgs({
  options: {
    story: { type: "string", multiple: true },
    out: { type: "string", default: join(repositoryRoot, ".cache/powerloss.json") },
    from: { type: "string", multiple: true },
    write: { type: "boolean", default: false },
  },
});

async function run(): Promise<TaskResult[]> {
  const wanted = stories.filter(
    ({ name }) => values.story?.some((part) => name.includes(part)) ?? true,
  );
  const tasks = wanted.map((story) => ({
    story,
    survivals: Object.keys(survivals) as Survival[],
    recoveries: Object.keys(recoveries) as Recovery[],
  }));
  mkdirSync(dirname(values.out), { recursive: true });
  const soFar: TaskResult[] = [];
  return await runTasks(tasks, (result) => {
    console.log(describeResult(result));
    soFar.push(result);
    writeFileSync(values.out, JSON.stringify(soFar));
  });
}

/** In the order of the stories, whatever the parts were. */
function read(paths: readonly string[]): TaskResult[] {
  const found = paths.flatMap((path) => JSON.parse(readFileSync(path, "utf8")) as TaskResult[]);
  return stories.flatMap(({ name }) => found.find(({ story }) => story === name) ?? []);
}

const results = values.from === undefined ? await run() : read(values.from);
if (values.write) await writeReport(results);
process.exitCode = results.some(({ leaks }) => leaks.length > 0) ? 1 : 0;
