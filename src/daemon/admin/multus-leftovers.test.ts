import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { FakeMultusFiles } from "#engine/testing/fake-files.ts";
import { multusLeftovers } from "./multus-leftovers.ts";

/* By the files that Multus 4.3.0 wrote for a pod `default/web`. */

const recorded = new URL("../../../e2e/fixtures/multus/", import.meta.url);
const read = (name: string): string => readFileSync(new URL(name, recorded), "utf8");
const containerId = "a".repeat(64);
const web = { namespace: "default", name: "web", uid: "u1", annotations: {}, isStatic: false };

test.each([
  { when: "its pod runs", pods: [web], left: [] },
  { when: "its pod is gone", pods: [], left: [containerId] },
  { when: "another pod has the name", pods: [{ ...web, uid: "u2" }], left: [containerId] },
  { when: "its pod is static", pods: [{ ...web, uid: "mirror", isStatic: true }], left: [] },
  { when: "nothing is cached of it", pods: [], cached: [], left: [] },
  { when: "its cached result is damaged", pods: [], cached: ["{"], left: [] },
  { when: "its file is damaged", pods: [], networks: "[]", left: [] },
])("multusLeftovers() names a container that Multus attached: $when", async (scene) => {
  const { pods, left, networks = read("networks"), cached = [read("results/main-eth0")] } = scene;
  const files = new FakeMultusFiles();
  files.sandboxes.set(containerId, networks);
  for (const text of cached) files.cached.set(`main-${containerId}-eth0`, text);
  expect(await multusLeftovers(files, pods)).toEqual(left);
});
