import { expect, test } from "vitest";
import type { JsonObject } from "#lib/json.ts";
import { isStaticPod, nodeNameOf } from "./object-meta.ts";

test.each([
  [{ "kubernetes.io/config.source": "file" }, true],
  [{ "kubernetes.io/config.mirror": "c0ffee" }, true],
  [{ "kubernetes.io/config.source": "api" }, false],
  [{}, false],
])("isStaticPod(%j) is %s", (annotations, isStatic) => {
  expect(isStaticPod(annotations)).toBe(isStatic);
});

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
