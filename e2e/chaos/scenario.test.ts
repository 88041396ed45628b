import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../support/paths.ts";
import { everyFault, faultKinds } from "./fault.ts";
import { fixedScenarios, formatScenario, parseScenario, randomScenario } from "./scenario.ts";

test("parsing the printed line of a scenario gives the same scenario", () => {
  const seeds = Array.from({ length: 200 }, (_, n) => `7:${n}`);
  for (const seed of seeds) {
    const scenario = randomScenario(seed, faultKinds);
    expect(parseScenario(formatScenario(scenario))).toEqual(scenario);
  }
});

test("the same seed always gives the same scenario", () => {
  const line = formatScenario(randomScenario("7:3", faultKinds));
  expect(formatScenario(randomScenario("7:3", faultKinds))).toBe(line);
  expect(formatScenario(randomScenario("7:4", faultKinds))).not.toBe(line);
});

test("an invalid scenario line is rejected", () => {
  expect(() => parseScenario("ADD start plexusd burn")).toThrow("is no fault of the matrix");
  expect(() => parseScenario("repaired never")).toThrow("repaired never");
  expect(() => parseScenario("and so on")).toThrow("is no part of a scenario");
});

test("the 100 fixed scenarios differ and cover every kind of fault in ADD and in DEL", () => {
  const scenarios = fixedScenarios(100, faultKinds);
  expect(new Set(scenarios.map(formatScenario)).size).toBe(100);
  const kindOf = (f: { operation: string; target: string; action: string }): string =>
    `${f.operation} ${f.target} ${f.action}`;
  const had = new Set(scenarios.flatMap(({ faults }) => faults.map(kindOf)));
  expect([...new Set(everyFault().map(kindOf))].filter((kind) => !had.has(kind))).toEqual([]);
});

test("docs/operations/reliability.md names every kind of fault", () => {
  const page = readFileSync(join(repositoryRoot, "docs/operations/reliability.md"), "utf8");
  for (const { action } of faultKinds) expect(page).toContain(action);
});
