import { expect, test } from "vitest";
import type { JsonObject } from "#lib/json.ts";
import { nodeNameOf } from "./pod-object.ts";

test.each<[pod: JsonObject, name: string | undefined]>([
  [{ spec: { nodeName: "n1" } }, "n1"],
  [{ spec: { nodeName: "" } }, undefined],
  [{ spec: { nodeName: 1 } }, undefined],
  [{ spec: {} }, undefined],
  [{ spec: null }, undefined],
  [{}, undefined],
])("the node's name of the pod %j is %s", (pod, name) => {
  expect(nodeNameOf(pod)).toBe(name);
});
