import { expect, test } from "vitest";
import { isStaticPod } from "./object-meta.ts";

test.each([
  [{ "kubernetes.io/config.source": "file" }, true],
  [{ "kubernetes.io/config.mirror": "c0ffee" }, true],
  [{ "kubernetes.io/config.source": "api" }, false],
  [{}, false],
])("isStaticPod(%j) is %s", (annotations, isStatic) => {
  expect(isStaticPod(annotations)).toBe(isStatic);
});
