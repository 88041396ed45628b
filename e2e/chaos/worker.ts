import { serveTasks } from "./lab/serve-tasks.ts";
import { prepareNode } from "./node.ts";
import { carryOut, type RunResult } from "./run.ts";
import { parseScenario } from "./scenario.ts";

/** What a worker is asked to do. */
export interface Task {
  readonly number: number;
  readonly scenario: string;
}

/** Runs scenarios on one node: see pool.ts. */
serveTasks<Task, RunResult>(async () => {
  const [, , contender = "", fixtures = "", previousShim = ""] = process.argv;
  const node = await prepareNode({ contender, fixtures, previousShim });
  return ({ scenario, number }) => carryOut(parseScenario(scenario), number, node);
});
