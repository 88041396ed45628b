import { beforeAll, describe, expect, test } from "vitest";
import { faultKinds } from "./fault.ts";
import { runMatrix } from "./matrix.ts";
import type { RunResult } from "./run.ts";
import { fixedScenarios, formatScenario } from "./scenario.ts";

const count = 200;
const results = new Map<string, RunResult>();

beforeAll(async () => {
  const report = await runMatrix({ fixed: count, seed: "", runs: 0, workers: 2 });
  for (const { scenario, result } of report.contenders[0]?.completed ?? [])
    results.set(scenario, result);
});

describe("nothing is left after", () => {
  test.each(fixedScenarios(count, faultKinds).map(formatScenario))("%s", (scenario) => {
    expect(results.get(scenario)?.leaks).toEqual([]);
  });
});

test("almost every fault came to happen", () => {
  const missed = [...results].filter(([, { happened }]) => !happened.every((each) => each));
  expect(missed.length, missed.map(([scenario]) => scenario).join("\n")).toBeLessThan(count / 20);
});
