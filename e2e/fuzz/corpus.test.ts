import { expect, test } from "vitest";
import { keptInputs } from "./corpus.ts";
import { targets } from "./targets/targets.ts";

test.each(Object.entries(targets))(
  "every kept input of %s is read as it must be",
  async (name, target) => {
    const inputs = keptInputs(name);
    expect(inputs.length).toBeGreaterThan(0);
    for (const text of inputs) await target.read(text);
  },
);
