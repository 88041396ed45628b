import { expect, test } from "vitest";
import { simulatedMutations } from "../safeguards/all.ts";
import { mutantSearch, searchMutant } from "./mutation-search.ts";

/** `make simulate MUTATIONS=1` searches all. */
const quick = simulatedMutations.filter(({ isSlow = false }) => !isSlow);

test.each(quick)("a history shows the absence of the safeguard: $name", async (mutation) => {
  const { findings } = await searchMutant(mutantSearch, mutation.change);
  const [finding] = findings;
  expect(mutation.properties).toContain(finding?.violation.property);
  const { seed = 0 } = finding ?? {};
  const { findings: others } = await searchMutant({ firstSeed: seed, step: 1, histories: 1 });
  expect(others, "with the safeguard").toEqual([]);
});
