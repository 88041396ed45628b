import { test } from "vitest";
import { installInjector, runSpecs } from "./injector.ts";
import { columnsOf, expectCounts, ginkgoCounts, type Suite } from "./suite.ts";

const all = { passed: 17, failed: 0 };

const suite: Suite = {
  name: "network-resources-injector",
  async run(cluster) {
    await installInjector(cluster);
    return runSpecs(cluster);
  },
  count: ginkgoCounts,
  expected: { Plexus: all, Multus: all, alone: all },
};

test.each(columnsOf(suite))("%s: as many pass as docs/reference/suites.md shows", (column) =>
  expectCounts(suite, column),
);
