import { serveTasks } from "./lab/workers.ts";
import { prepareNode } from "./node.ts";
import { carryOut, type RunResult } from "./run.ts";
import type { Scenario } from "./scenario.ts";

/** What a worker is asked to do. */
export interface Task {
  readonly number: number;
  readonly scenario: Scenario;
}

/** Runs scenarios on one node: see matrix.ts. */
serveTasks<Task, RunResult>(async () => {
  const [, , contender = "", fixtures = "", previousShim = ""] = process.argv;
  const node = await prepareNode({ contender, fixtures, previousShim });
  return ({ scenario, number }) => carryOut(scenario, number, node);
});
