import { type HistoryEnd, runHistory } from "./history/history.ts";
import { drawScenario, type Scenario } from "./history/scenario.ts";

/** What is left out of a seed's scenario to make it shorter: indices of its lists. */
export interface LeftOut {
  readonly pods: readonly number[];
  readonly mischief: readonly number[];
}

/** What the file of the simulation exports (e2e/simulation/bundle.ts). */
export interface Simulation {
  readonly simulate: typeof simulate;
  readonly scenarioOf: typeof scenarioOf;
}

export function scenarioOf(seed: number, leftOut?: LeftOut): Scenario {
  const scenario = drawScenario(seed);
  if (leftOut === undefined) return scenario;
  return {
    ...scenario,
    pods: scenario.pods.filter((_, index) => !leftOut.pods.includes(index)),
    mischief: scenario.mischief.filter((_, index) => !leftOut.mischief.includes(index)),
  };
}

/** Runs the history of a seed. `note` gets a line for everything that happens. */
export function simulate(
  seed: number,
  leftOut?: LeftOut,
  note?: (line: string) => void,
): Promise<HistoryEnd> {
  return runHistory(scenarioOf(seed, leftOut), note);
}
