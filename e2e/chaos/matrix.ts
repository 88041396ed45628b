import { contenders } from "./contenders/all.ts";
import { type Fault, faultKinds } from "./fault.ts";
import { makeBuilds } from "./lab/builds.ts";
import { type Completed, runTasks } from "./pool.ts";
import { describeRun } from "./report.ts";
import { isLeaking, type MatrixReport } from "./results.ts";
import {
  fixedScenarios,
  formatScenario,
  parseScenario,
  randomScenario,
  type Scenario,
} from "./scenario.ts";
import type { Task } from "./worker.ts";

/** Selects runs. */
export interface MatrixOptions {
  /** One scenario only. */
  readonly scenario?: string;
  /** That many of the fixed runs instead of random ones. */
  readonly fixed?: number;
  readonly seed: string;
  readonly runs: number;
  /** The random runs begin with that one of the seed. @default 0 */
  readonly skip?: number;
  /** The name of the only contender that takes part. @default all that are given */
  readonly only?: string;
  readonly workers: number;
  /** Ends the matrix early: the runs that have begun are finished. */
  readonly stop?: AbortSignal;
  /** Prints every run, not only those that left something. @default false */
  readonly verbose?: boolean;
  /** Prints no run at all. @default false */
  readonly quiet?: boolean;
}

/** Makes the runs with every contender that is given; a line is printed for each that leaves something. */
export async function runMatrix(options: MatrixOptions): Promise<MatrixReport> {
  await using builds = await makeBuilds();
  const made: MatrixReport["contenders"][number][] = [];
  for (const { name, canHave } of contenders.filter((c) => takesPart(c, options))) {
    const tasks = tasksOf(options, canHave);
    const completed = await runTasks(tasks, {
      contender: name,
      builds,
      workers: Math.min(options.workers, tasks.length),
      stop: options.stop,
      onCompleted: reporter(name, tasks.length, options),
    });
    made.push({ name, completed });
  }
  return { selection: selectionOf(options), contenders: made };
}

function takesPart(
  { name, isGiven }: (typeof contenders)[number],
  { only = name }: MatrixOptions,
): boolean {
  return isGiven() && name === only;
}

/** Prints what is left as soon as it is found, and now and then how far the runs are. */
function reporter(
  name: string,
  total: number,
  { verbose, quiet }: MatrixOptions,
): (completed: Completed) => void {
  let [count, leaking] = [0, 0];
  return (completed) => {
    count++;
    if (isLeaking(completed)) leaking++;
    if (quiet) return;
    if (verbose || isLeaking(completed)) console.log(describeRun(name, completed));
    if (count % 100 === 0)
      console.log(`${name}: ${count} of ${total} runs, ${leaking} left something`);
  };
}

/** The same runs for every contender, without those with a fault that it cannot have. */
function tasksOf(options: MatrixOptions, canHave: (fault: Fault) => boolean): Task[] {
  return scenariosOf(options)
    .map((scenario, n) => ({ number: (options.skip ?? 0) + n, scenario }))
    .filter(({ scenario }) => scenario.faults.every(canHave))
    .map(({ number, scenario }) => ({ number, scenario: formatScenario(scenario) }));
}

function scenariosOf({ scenario, fixed, seed, runs, skip = 0 }: MatrixOptions): Scenario[] {
  if (scenario !== undefined) return [parseScenario(scenario)];
  if (fixed !== undefined) return fixedScenarios(fixed, faultKinds);
  return Array.from({ length: runs }, (_, n) => randomScenario(`${seed}:${skip + n}`, faultKinds));
}

function selectionOf({ scenario, fixed, seed }: MatrixOptions): string {
  if (scenario !== undefined) return `the scenario "${scenario}"`;
  return fixed !== undefined ? `${fixed} fixed runs` : `random runs of SEED=${seed}`;
}
