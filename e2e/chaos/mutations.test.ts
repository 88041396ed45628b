import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { matrixMutations } from "../safeguards/all.ts";
import { type Builds, makeBuilds } from "./lab/builds.ts";
import { runMatrix } from "./matrix.ts";
import { buildMutant } from "./mutant.ts";
import { hasUnanswered, type Run } from "./report.ts";
import { formatScenario, parseScenario } from "./scenario.ts";

const usualDist = process.env.PLEXUS_DIST;
const mutations = matrixMutations.map((each) => ({
  ...each,
  scenario: formatScenario(parseScenario(each.scenario)),
}));
let builds: Builds;
let withSafeguards: readonly Run[];

beforeAll(async () => {
  builds = await makeBuilds();
  withSafeguards = await runs(mutations.map(({ scenario }) => scenario));
});
afterAll(() => builds[Symbol.asyncDispose]());
afterEach(() => {
  if (usualDist === undefined) delete process.env.PLEXUS_DIST;
  else process.env.PLEXUS_DIST = usualDist;
});

async function runs(scenarios: readonly string[]): Promise<readonly Run[]> {
  const [own] = await runMatrix(scenarios.map(parseScenario), { builds, workers: 2 });
  return own?.runs ?? [];
}

/** The leftovers of the scenario's run, and whether the runtime gave up on a call. */
function findingsOf(scenario: string, all: readonly Run[]): readonly string[] {
  const run = all.find((each) => formatScenario(each.scenario) === scenario);
  if (run === undefined) return ["it did not run"];
  return [...run.result.leaks, ...(hasUnanswered(run) ? ["a call was never answered"] : [])];
}

describe("the matrix finds leftovers or a hanging call without this safeguard", () => {
  test.each(mutations)("$name", async ({ scenario, leaves, ...change }) => {
    expect(findingsOf(scenario, withSafeguards), "with the safeguard").toEqual([]);
    await using mutant = await buildMutant(change);
    process.env.PLEXUS_DIST = mutant.dist;
    const findings = findingsOf(scenario, await runs([scenario]));
    if (leaves === undefined) expect(findings, "without it").not.toEqual([]);
    else expect(findings, "without it").toEqual(leaves.map((line) => expect.stringMatching(line)));
  });
});
