import { afterEach, expect, vi } from "vitest";
import type { NetworkOnNode } from "#engine/inventory/inventory.ts";
import { kubeTest } from "#kube/testing/kube-test.ts";
import { merge } from "#kube/testing/object-store.ts";
import { objectOf } from "#lib/json.ts";
import { NetworkPlacement, type NodeMark } from "./network-placement.ts";

afterEach(() => void vi.restoreAllMocks());

const label = (name: string): string => `networks.plexus.dev/shop.${name}`;
const network = (name: string, usable = true): NetworkOnNode => ({
  ...{ network: `shop/${name}`, usable, label: label(name) },
  ...(!usable && { reason: "MasterMissing" as const, message: "no link" }),
});

/** A node of a real client and a fake API server, whose networks the test chooses. */
const test = kubeTest.extend("node", async ({ api, kube }) => {
  const name = "node-1";
  api.put("nodes", { metadata: { name, labels: { zone: "a" } }, status: { capacity: {} } });
  const state = {
    marks: ["labels", "resources"] as readonly NodeMark[],
    networks: [network("lan")] as readonly NetworkOnNode[] | undefined,
    reasons: [] as string[],
    nowMs: 1_000_000,
  };
  vi.spyOn(performance, "now").mockImplementation(() => state.nowMs);
  const newPlacement = () =>
    new NetworkPlacement({
      marks: () => state.marks,
      networks: async () => state.networks,
      readiness: () => state.reasons,
      node: kube.marks,
    });
  const onNode = (method: string) => (request: { method: string; path: string }) =>
    request.method === method && request.path.startsWith("/api/v1/nodes/");
  const count = (method: string) => api.seen.filter(onNode(method)).length;
  const object = () => objectOf(api.collection("nodes").objects.get(name));
  return {
    state,
    newPlacement,
    placement: newPlacement(),
    count,
    requests: () => ({ GET: count("GET"), PATCH: count("PATCH") }),
    /** The names of the networks in the labels. */
    labels: () => {
      const labels = Object.keys(objectOf(objectOf(object().metadata).labels));
      return labels.filter((each) => each !== "zone").map((each) => each.split(".").at(-1));
    },
    capacity: () => objectOf(objectOf(object().status).capacity),
    condition: () => objectOf(Object.values(objectOf(object().status).conditions ?? [])[0]),
    fail: (method: string, answer: number, times = 1) =>
      api.script({ when: onNode(method), answer, times, body: { message: "forbidden" } }),
    change(of: string, value: string) {
      const nodes = api.collection("nodes");
      merge(nodes, object(), { metadata: { labels: { [label(of)]: value } } });
    },
  };
});

test("without marks in the configuration, nothing is asked, read or written", async ({ node }) => {
  const networks = vi.fn();
  const options = { marks: () => [], networks, readiness: () => [] };
  const untouched = { read: networks, write: networks };
  await new NetworkPlacement({ ...options, node: untouched }).run();
  expect(networks).not.toHaveBeenCalled();
  expect(node.requests()).toEqual({ GET: 0, PATCH: 0 });
});

test("a network is there at once, with one request, and costs nothing while it stays", async ({
  node,
}) => {
  await node.placement.run();
  expect(node.labels()).toEqual(["lan"]);
  expect(node.capacity()).toEqual({ [label("lan")]: "1k" });
  expect(node.requests()).toEqual({ GET: 1, PATCH: 1 });
  for (let i = 0; i < 50; i++) await node.placement.run();
  expect(node.requests()).toEqual({ GET: 1, PATCH: 1 });
  node.state.networks = [network("lan"), network("wan")];
  await node.placement.run();
  expect(node.labels()).toEqual(["lan", "wan"]);
  expect(node.requests()).toEqual({ GET: 1, PATCH: 2 });
});

test("a network is gone only after two runs", async ({ node }) => {
  await node.placement.run();
  node.state.networks = [network("lan", false)];
  await node.placement.run();
  expect(node.labels()).toEqual(["lan"]);
  node.state.networks = [network("lan")];
  await node.placement.run();
  expect(node.requests()).toEqual({ GET: 1, PATCH: 1 });
  node.state.networks = [network("lan", false)];
  await node.placement.run();
  await node.placement.run();
  expect(node.labels()).toEqual([]);
  expect(node.capacity()).toEqual({});
  expect(node.requests()).toEqual({ GET: 1, PATCH: 2 });
});

test("a plexusd that starts takes what the Node has for its last run", async ({ node }) => {
  await node.placement.run();
  node.state.networks = [network("lan", false)];
  const restarted = node.newPlacement();
  await restarted.run();
  expect(node.labels()).toEqual(["lan"]);
  await restarted.run();
  expect(node.labels()).toEqual([]);
});

test("before the definitions have been listed, nothing is removed", async ({ node }) => {
  await node.placement.run();
  node.state.networks = undefined;
  const restarted = node.newPlacement();
  await restarted.run();
  await restarted.run();
  expect(node.labels()).toEqual(["lan"]);
  expect(node.requests()).toEqual({ GET: 1, PATCH: 1 });
});

test.for<[number, number]>([
  [1, 1],
  [2, 6],
])(
  "a definition that is deleted or created after %i runs costs %i requests in eleven",
  async ([runs, count], { node }) => {
    await node.placement.run();
    for (let i = 0; i < 10; i++) {
      node.state.networks = Math.floor(i / runs) % 2 === 0 ? [] : [network("lan")];
      await node.placement.run();
    }
    expect(node.requests()).toEqual({ GET: 1, PATCH: count });
  },
);

test("a Node has at most 256 networks, and plexusd says that it leaves some out", async ({
  node,
}) => {
  const names = Array.from({ length: 1000 }, (_, i) => `net-${`${i}`.padStart(4, "0")}`);
  node.state.networks = names.map((name) => network(name));
  await expect(node.placement.run()).rejects.toThrow(/^1000 definitions .* the first 256 by name$/);
  expect(node.labels()).toEqual(names.slice(0, 256));
  expect(node.placement.latest).toHaveLength(256);
  await expect(node.placement.run()).rejects.toThrow("1000 definitions");
  expect(node.requests()).toEqual({ GET: 1, PATCH: 1 });
});

test("what others change on the Node is corrected within ten minutes", async ({ node }) => {
  await node.placement.run();
  node.change("lan", "false");
  node.change("strange", "true");
  node.state.nowMs += 599_000;
  await node.placement.run();
  expect(node.count("GET")).toBe(1);
  node.state.nowMs += 2000;
  await node.placement.run();
  expect(node.labels()).toEqual(["lan"]);
  expect(node.requests()).toEqual({ GET: 2, PATCH: 2 });
});

test("after a failure plexusd waits for a minute, and then reads the Node again", async ({
  node,
}) => {
  node.fail("PATCH", 403);
  await expect(node.placement.run()).rejects.toThrow("forbidden");
  await expect(node.placement.run()).rejects.toThrow("forbidden");
  expect(node.requests()).toEqual({ GET: 1, PATCH: 1 });
  node.state.nowMs += 60_000;
  await node.placement.run();
  expect(node.labels()).toEqual(["lan"]);
  expect(node.requests()).toEqual({ GET: 2, PATCH: 2 });
});

test("what the configuration no longer has is removed, once", async ({ node }) => {
  await node.placement.run();
  node.state.marks = ["resources"];
  await node.placement.run();
  expect(node.labels()).toEqual([]);
  expect(node.capacity()).toEqual({ [label("lan")]: "1k" });
  node.state.marks = [];
  node.fail("PATCH", 500);
  await expect(node.placement.run()).rejects.toThrow();
  node.state.nowMs += 60_000;
  await node.placement.run();
  expect(node.capacity()).toEqual({});
  expect(node.placement.latest).toEqual([]);
  const before = node.requests();
  await node.placement.run();
  expect(node.requests()).toEqual(before);
});

test("the condition is true when all networks can be used and plexusd is ready", async ({
  node,
}) => {
  node.state.marks = ["condition"];
  node.state.networks = [network("a", false), network("b", false), network("c")];
  await node.placement.run();
  const reason = "NetworkUnavailable";
  const message = "shop/a: no link, and 1 more";
  expect(node.condition()).toMatchObject({
    type: "NetworksReady",
    status: "False",
    reason,
    message,
  });
  expect([node.labels(), node.capacity()]).toEqual([[], {}]);
  node.state.networks = [network("c")];
  node.state.reasons = ["it is stopping"];
  await node.placement.run();
  expect(node.condition()).toMatchObject({ status: "False", message: "plexusd: it is stopping" });
  node.state.reasons = [];
  await node.placement.run();
  expect(node.condition()).toMatchObject({ status: "True", reason: "NetworkAvailable" });
  expect(node.requests()).toEqual({ GET: 1, PATCH: 3 });
});

test("a network of devices is no matter of the Node's labels", async ({ node }) => {
  const { label: _, ...devices } = network("devices");
  node.state.networks = [devices, network("lan")];
  await node.placement.run();
  expect(node.labels()).toEqual(["lan"]);
});
