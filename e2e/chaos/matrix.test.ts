import { beforeAll, describe, expect, test } from "vitest";
import { faultKinds } from "./fault.ts";
import { makeBuilds } from "./lab/builds.ts";
import { runMatrix } from "./matrix.ts";
import type { ContenderRuns } from "./report.ts";
import { fixedScenarios, formatScenario, parseScenario } from "./scenario.ts";

/** Of random runs: these left something once. */
const found = [
  "ADD eth0/portmap:after plugin moved; DEL eth0/ptp:before plugin lost; repaired after DEL; netns removed",
];
const scenarios = [...fixedScenarios(100, faultKinds), ...found.map(parseScenario)];
let runs: ContenderRuns["runs"];

beforeAll(async () => {
  await using builds = await makeBuilds();
  const [own] = await runMatrix(scenarios, { builds, workers: 2, print: console.log });
  runs = own?.runs ?? [];
});

describe("nothing is left after", () => {
  test.each(scenarios.map(formatScenario))("%s", (line) => {
    const run = runs.find(({ scenario }) => formatScenario(scenario) === line);
    expect(run?.result.leaks).toEqual([]);
  });
});

test("fewer than 5% of the scenarios miss one of their faults", () => {
  const missed = runs.filter(({ result }) => !result.happened.every((each) => each));
  const lines = missed.map(({ scenario }) => formatScenario(scenario));
  expect(missed.length, lines.join("\n")).toBeLessThan(scenarios.length / 20);
});
