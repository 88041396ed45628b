import { afterEach, describe, expect, test } from "vitest";
import { runMatrix } from "./matrix.ts";
import { buildMutant } from "./mutant.ts";
import { mutations } from "./mutations.ts";

const usualDist = process.env.PLEXUS_DIST;

afterEach(() => {
  if (usualDist === undefined) delete process.env.PLEXUS_DIST;
  else process.env.PLEXUS_DIST = usualDist;
});

async function leaksOf(scenario: string): Promise<readonly string[]> {
  const report = await runMatrix({ scenario, seed: "", runs: 1, workers: 1, quiet: true });
  return report.contenders[0]?.completed[0]?.result.leaks ?? ["it did not run"];
}

describe("the matrix sees what is left without this safeguard", () => {
  test.each(mutations)("$name", async (mutation) => {
    expect(await leaksOf(mutation.scenario), "with the safeguard").toEqual([]);
    await using mutant = await buildMutant(mutation);
    process.env.PLEXUS_DIST = mutant.dist;
    expect(await leaksOf(mutation.scenario), "without it").not.toEqual([]);
  });
});
