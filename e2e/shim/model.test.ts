import { resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { fixedCases } from "../simulation/testing/fixed-cases.ts";
import { runModel } from "../simulation/testing/model-shim.ts";
import { runShim } from "../simulation/testing/real-shim.ts";
import { shimCase } from "../simulation/testing/shim-cases.ts";
import { Bench } from "./lab/harness.ts";

const shim = resolve(import.meta.dirname, "../../dist/plexus");
const cases = 240;
/** Most of a case is waiting. */
const atOnce = 8;
let bench: Bench;
let podNetns: string;

beforeAll(() => {
  bench = new Bench(shim);
  podNetns = bench.netns();
});
afterAll(() => bench.close());

test(`the simulator's model of the shim does as the shim in ${cases} random cases`, async () => {
  const seeds = Array.from({ length: cases }, (_, seed) => seed);
  const differences: unknown[] = [];
  const work = async (): Promise<void> => {
    for (let seed = seeds.shift(); seed !== undefined; seed = seeds.shift()) {
      const wanted = shimCase(seed);
      const shimEnd = await runShim(wanted, { shim, podNetns });
      // The model has one world at a time, and runs a case without waiting for anything real.
      const modelEnd = await alone(() => runModel(wanted, podNetns));
      if (JSON.stringify(modelEnd) !== JSON.stringify(shimEnd))
        differences.push({ seed, case: wanted, shim: shimEnd, model: modelEnd });
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  expect(differences).toEqual([]);
});

// The model has the same test in the simulation's folder.
test.each(fixedCases)("the shim: $name", async ({ name: _, case: wanted, ...end }) => {
  expect(await runShim(wanted, { shim, podNetns })).toEqual(end);
});

let last: Promise<unknown> = Promise.resolve();

/** Runs steps one after another. */
function alone<T>(step: () => Promise<T>): Promise<T> {
  const run = last.then(step);
  last = run.catch(() => undefined);
  return run;
}
