import { parseArgs } from "node:util";
import { type Survival, survivals } from "./power-loss.ts";
import { recoveries } from "./reboot.ts";
import { describeResult, writeReport } from "./report.ts";
import { runTasks } from "./run.ts";
import { stories } from "./stories.ts";

/**
 * Power losses at every operation on the disk: `make powerloss` (docs/operations/reliability.md). --story, which
 * can be repeated, takes only those whose names contain it. --write puts the table into
 * docs/operations/reliability.md.
 */
const { values } = parseArgs({
  options: {
    story: { type: "string", multiple: true },
    write: { type: "boolean", default: false },
  },
});

const tasks = stories
  .filter(({ name }) => values.story?.some((part) => name.includes(part)) ?? true)
  .map((story) => ({
    story,
    survivals: Object.keys(survivals) as Survival[],
    recoveries,
  }));
const results = await runTasks(tasks, (_, result) => console.log(describeResult(result)));
if (values.write) await writeReport(results);
process.exitCode = results.some(({ leaks }) => leaks.length > 0) ? 1 : 0;
