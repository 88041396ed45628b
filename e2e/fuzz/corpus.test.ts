import { expect, test } from "vitest";
import { keptInputs } from "./corpus.ts";
import { targets } from "./targets/targets.ts";

test.each(Object.entries(targets))(
  "reader %s passes its checks on every input of its corpus",
  async (name, target) => {
    const inputs = keptInputs(name);
    expect(inputs.length).toBeGreaterThan(0);
    for (const text of inputs) await target.read(text);
  },
);
