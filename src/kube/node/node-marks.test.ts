import { expect } from "vitest";
import type { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import { kubeTest as test } from "#kube/testing/kube-test.ts";
import type { JsonObject } from "#lib/json.ts";

const ready = { type: "Ready", status: "True" };
const none = { labels: {}, capacity: {} };
const marks = {
  labels: { "networks.plexus.dev/shop.lan": "true" },
  capacity: { "networks.plexus.dev/shop.lan": "1k" },
};
const condition = { status: "False", reason: "NetworkUnavailable", message: "no link" };

function putNode(api: FakeApiServer): void {
  api.put("nodes", {
    metadata: { name: "node-1", labels: { zone: "a" } },
    status: { capacity: { cpu: "8" }, conditions: [ready] },
  });
}

const patches = (api: FakeApiServer) => api.seen.filter(({ method }) => method === "PATCH");
const node = (api: FakeApiServer): JsonObject | undefined =>
  api.collection("nodes").objects.get("node-1");

test("marks are written with one patch of the status, and read as they were written", async ({
  api,
  kube,
}) => {
  putNode(api);
  expect(await kube.marks.read()).toEqual(none);
  await kube.marks.write(none, { ...marks, condition });
  expect(patches(api)).toMatchObject([
    {
      path: "/api/v1/nodes/node-1/status",
      headers: { "content-type": "application/strategic-merge-patch+json" },
    },
  ]);
  expect(await kube.marks.read()).toEqual({ ...marks, condition });
  expect(node(api)).toMatchObject({
    metadata: { labels: { zone: "a", ...marks.labels } },
    status: { capacity: { cpu: "8", ...marks.capacity }, allocatable: marks.capacity },
  });
});

test("a change names only what is new, different and gone", async ({ api, kube }) => {
  putNode(api);
  await kube.marks.write(none, { ...marks, condition });
  const labels = { "networks.plexus.dev/shop.wan": "true" };
  const gone = { "networks.plexus.dev/shop.lan": null };
  await kube.marks.write({ ...marks, condition }, { labels, capacity: {}, condition });
  expect(patches(api)[1]?.body).toEqual({
    metadata: { labels: { ...labels, ...gone } },
    status: { capacity: gone, allocatable: gone },
  });
  expect(node(api)).toMatchObject({
    metadata: { labels: { zone: "a", ...labels } },
    status: { capacity: { cpu: "8" }, allocatable: {} },
  });
});

test("nothing is sent if nothing is to be changed", async ({ api, kube }) => {
  putNode(api);
  await kube.marks.write({ ...marks, condition }, { ...marks, condition: { ...condition } });
  expect(patches(api)).toEqual([]);
});

test("a capacity that the kubelet has set to zero is no capacity", async ({ api, kube }) => {
  putNode(api);
  const reset = { "networks.plexus.dev/shop.lan": "0" };
  await kube.marks.write({ labels: marks.labels, capacity: reset }, marks);
  expect(patches(api)[0]?.body).toEqual({
    status: { capacity: marks.capacity, allocatable: marks.capacity },
  });
});

test("the condition has the time of its last transition, and goes alone", async ({ api, kube }) => {
  putNode(api);
  await kube.marks.write(none, { ...none, condition });
  const [{ lastTransitionTime, ...first } = {}] = conditionsSent(api);
  expect(first).toEqual({ type: "NetworksReady", ...condition });
  expect(lastTransitionTime).toMatch(/^\d{4}-.*Z$/);
  const changed = { ...condition, message: "no other link" };
  await kube.marks.write({ ...none, condition }, { ...none, condition: changed });
  expect(conditionsSent(api)).toEqual([{ type: "NetworksReady", ...changed }]);
  await kube.marks.write({ ...none, condition: changed }, none);
  expect(conditionsSent(api)).toEqual([{ type: "NetworksReady", $patch: "delete" }]);
  expect(node(api)).toMatchObject({ status: { conditions: [ready] } });
});

test("a refused write is an error", async ({ api, kube }) => {
  putNode(api);
  const when = ({ method }: { method: string }) => method === "PATCH";
  api.script({ when, answer: 403, body: { message: 'nodes "node-1" is forbidden' } });
  await expect(kube.marks.write(none, marks)).rejects.toThrow("forbidden");
});

/** The conditions of the last patch. */
function conditionsSent(api: FakeApiServer): JsonObject[] {
  const body = patches(api).at(-1)?.body as { status: { conditions: JsonObject[] } };
  return body.status.conditions;
}
