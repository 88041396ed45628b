import { join } from "node:path";
import { contenders } from "./contenders/all.ts";
import type { Builds } from "./lab/builds.ts";
import { runOnWorkers } from "./lab/workers.ts";
import { type ContenderRuns, describeRun, isLeaking } from "./report.ts";
import type { RunResult } from "./run.ts";
import type { Scenario } from "./scenario.ts";
import type { Task } from "./worker.ts";

/** How runs are made. */
export interface MatrixOptions {
  readonly builds: Builds;
  readonly workers: number;
  /** Ends the matrix early: the runs that have begun are finished. */
  readonly stop?: AbortSignal;
  /** Gets what a run left as soon as it is found, and now and then how far the runs are. @default nothing does */
  readonly print?: (line: string) => void;
}

const limitMs = 120_000;

/** Makes the runs with every contender that is given; those of Multus take longer, so it makes the first quarter. */
export async function runMatrix(
  scenarios: readonly Scenario[],
  { builds, workers, stop, print = () => undefined }: MatrixOptions,
): Promise<ContenderRuns[]> {
  const made: ContenderRuns[] = [];
  for (const { name, canHave } of contenders.filter(({ isGiven }) => isGiven())) {
    const part = made.length === 0 ? scenarios.length : Math.ceil(scenarios.length / 4);
    const tasks = scenarios
      .slice(0, part)
      .map((scenario, number): Task => ({ number, scenario }))
      .filter(({ scenario }) => scenario.faults.every(canHave));
    const runs: { scenario: Scenario; result: RunResult }[] = [];
    await runOnWorkers<Task, RunResult>(tasks, {
      program: join(import.meta.dirname, "worker.ts"),
      args: [name, builds.fixtures, builds.previousShim],
      limitMs,
      workers,
      stop,
      unfinished,
      onCompleted({ scenario }, result) {
        const run = { scenario, result };
        runs.push(run);
        if (isLeaking(run) || scenarios.length === 1) print(describeRun(name, run));
        if (runs.length % 100 > 0) return;
        const leaking = runs.filter(isLeaking).length;
        print(`${name}: ${runs.length} of ${tasks.length} runs, ${leaking} left something`);
      },
    });
    made.push({ name, runs });
  }
  return made;
}

/** A run that came to no end, as when a daemon does not start again, counts as one that left something. */
function unfinished(error: unknown): RunResult {
  const problem = error instanceof Error ? error.message : String(error);
  const leaks = [`the run could not be finished: ${problem}`];
  return { happened: [], add: "", dels: [], leaks, milliseconds: 0 };
}
