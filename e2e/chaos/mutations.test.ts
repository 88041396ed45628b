import { afterEach, describe, expect, test } from "vitest";
import { matrixMutations } from "../safeguards/all.ts";
import { runMatrix } from "./matrix.ts";
import { buildMutant } from "./mutant.ts";
import { hasUnanswered } from "./report.ts";
import { parseScenario } from "./scenario.ts";

const usualDist = process.env.PLEXUS_DIST;

afterEach(() => {
  if (usualDist === undefined) delete process.env.PLEXUS_DIST;
  else process.env.PLEXUS_DIST = usualDist;
});

/** The leftovers of a scenario, and whether the runtime gave up on a call. */
async function findingsOf(scenario: string): Promise<readonly string[]> {
  const [own] = await runMatrix([parseScenario(scenario)], { workers: 1 });
  const [run] = own?.runs ?? [];
  if (run === undefined) return ["it did not run"];
  return [...run.result.leaks, ...(hasUnanswered(run) ? ["a call was never answered"] : [])];
}

describe("the matrix finds leftovers or a hanging call without this safeguard", () => {
  test.each(matrixMutations)("$name", async (mutation) => {
    expect(await findingsOf(mutation.scenario), "with the safeguard").toEqual([]);
    await using mutant = await buildMutant(mutation);
    process.env.PLEXUS_DIST = mutant.dist;
    const findings = await findingsOf(mutation.scenario);
    const { leaves } = mutation;
    if (leaves === undefined) expect(findings, "without it").not.toEqual([]);
    else expect(findings, "without it").toEqual(leaves.map((line) => expect.stringMatching(line)));
  });
});
