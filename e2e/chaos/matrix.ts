import { contenders } from "./contenders/all.ts";
import { type FaultKind, faultKinds } from "./fault.ts";
import { makeBuilds } from "./lab/builds.ts";
import { type Completed, runTasks } from "./pool.ts";
import { describeRun, type MatrixReport } from "./report.ts";
import { fixedScenarios, formatScenario, parseScenario, randomScenario } from "./scenario.ts";
import type { Task } from "./worker.ts";

/** Which runs are to be made. */
export interface MatrixOptions {
  /** One scenario only. */
  readonly scenario?: string;
  /** That many of the fixed runs instead of random ones. */
  readonly fixed?: number;
  readonly seed: string;
  readonly runs: number;
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
  const made: MatrixReport["contenders"] = [];
  for (const { name, canHave } of contenders.filter((c) => c.isGiven())) {
    const tasks = tasksOf(options, faultKinds.filter(canHave));
    const completed = await runTasks(tasks, {
      contender: name,
      builds,
      workers: Math.min(options.workers, tasks.length),
      stop: options.stop,
      onCompleted: reporter(name, tasks.length, options),
    });
    made.push({ name, completed, leaking: completed.filter(isLeaking) });
  }
  const runs = Math.min(options.runs, ...made.map(({ completed }) => completed.length));
  return { selection: selectionOf({ ...options, runs }), contenders: made };
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

function isLeaking({ result }: Completed): boolean {
  return result.leaks.length > 0;
}

function tasksOf(options: MatrixOptions, kinds: readonly FaultKind[]): Task[] {
  const { scenario, fixed, seed, runs } = options;
  const scenarios =
    scenario !== undefined
      ? [parseScenario(scenario)]
      : fixed !== undefined
        ? fixedScenarios(fixed, kinds)
        : Array.from({ length: runs }, (_, n) =>
            randomScenario(runs === 1 ? seed : `${seed}:${n}`, kinds),
          );
  return scenarios.map((each, number) => ({ number, scenario: formatScenario(each) }));
}

function selectionOf({ scenario, fixed, seed, runs }: MatrixOptions): string {
  if (scenario !== undefined) return `the scenario "${scenario}"`;
  return fixed !== undefined ? `${fixed} fixed runs` : `${runs} random runs of SEED=${seed}`;
}
