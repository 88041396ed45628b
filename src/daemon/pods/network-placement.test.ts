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

interface NodeState {
  marks: readonly NodeMark[];
  networks: readonly NetworkOnNode[] | undefined;
  reasons: readonly string[];
  nowMs: number;
}

/** A node of a real client and a fake API server, whose networks the test chooses. */
const test = kubeTest.extend("node", async ({ api, kube }) => {
  const name = "node-1";
  api.put("nodes", { metadata: { name, labels: { zone: "a" } }, status: { capacity: {} } });
  const state: NodeState = {
    marks: ["labels", "resources"],
    networks: [network("lan")],
    reasons: [],
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
      node.state.nowMs += 10_000;
      node.state.networks = Math.floor(i / runs) % 2 === 0 ? [] : [network("lan")];
      await node.placement.run();
    }
    expect(node.requests()).toEqual({ GET: 1, PATCH: count });
  },
);

test("a definition that has another name in each run costs one request a minute, after two", async ({
  node,
}) => {
  for (let i = 0; i < 60; i++) {
    node.state.networks = [network("lan"), network(`x${i}`)];
    await node.placement.run();
    node.state.nowMs += 10_000;
  }
  expect(node.count("PATCH")).toBe(2 + 9);
  const later = async (): Promise<void> => {
    for (let i = 0; i < 8; i++) {
      await node.placement.run();
      node.state.nowMs += 10_000;
    }
  };
  node.state.networks = [network("lan")];
  await later();
  expect(node.labels()).toEqual(["lan"]);
  for (const names of [["a"], ["b"], ["c"]]) {
    node.state.networks = names.map((name) => network(name));
    await node.placement.run();
  }
  node.state.marks = [];
  await node.placement.run();
  expect(node.labels()).toEqual(["a", "b"]);
  await later();
  expect(node.labels()).toEqual([]);
});

/** Networks whose names begin so, sorted. */
const many = (count: number, begin: string, usable = true): NetworkOnNode[] =>
  Array.from({ length: count }, (_, i) => network(`${begin}${`${i}`.padStart(4, "0")}`, usable));

test("a Node has at most 256 networks, and plexusd says that it leaves some out", async ({
  node,
}) => {
  node.state.networks = many(1000, "net-");
  await expect(node.placement.run()).rejects.toThrow(/^1000 networks .* the Node has 256 of them$/);
  expect(node.labels()).toEqual(many(256, "net-").map(({ network }) => network.slice(5)));
  expect(node.placement.latest).toHaveLength(256);
  await expect(node.placement.run()).rejects.toThrow("1000 networks");
  expect(node.requests()).toEqual({ GET: 1, PATCH: 1 });
});

test("of more than 256 networks, those that the Node has stay, also after a restart", async ({
  node,
}) => {
  await node.placement.run();
  node.state.networks = [...many(256, "a"), network("lan")];
  for (const placement of [node.placement, node.placement, node.newPlacement()]) {
    await expect(placement.run()).rejects.toThrow("257 networks");
    expect(node.labels()).toHaveLength(256);
    expect(node.labels()).toContain("lan");
    expect(node.capacity()).toHaveProperty([label("lan")]);
    expect(placement.latest.map(({ network }) => network)).toContain("shop/lan");
  }
});

test("a place that is free again goes to a network that waits for it", async ({ node }) => {
  node.state.networks = many(257, "a");
  await expect(node.placement.run()).rejects.toThrow("257 networks");
  node.state.networks = [network("a0000", false), ...many(257, "a").slice(1)];
  await node.placement.run();
  expect(node.labels()).not.toContain("a0256");
  await node.placement.run();
  expect(node.labels()).toContain("a0256");
  expect(node.labels()).toHaveLength(256);
});

test("networks that this node cannot use take no place of others", async ({ node }) => {
  node.state.networks = [...many(256, "a", false), network("lan")];
  await node.placement.run();
  expect(node.labels()).toEqual(["lan"]);
  expect(node.placement.latest[0]).toMatchObject({ network: "shop/lan" });
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

test("after a failure plexusd waits for one to two minutes, and then reads the Node again", async ({
  node,
}) => {
  vi.spyOn(Math, "random").mockReturnValue(0.5);
  node.fail("PATCH", 403);
  await expect(node.placement.run()).rejects.toThrow("forbidden");
  await expect(node.placement.run()).rejects.toThrow("forbidden");
  node.state.nowMs += 89_000;
  await expect(node.placement.run()).rejects.toThrow("forbidden");
  expect(node.requests()).toEqual({ GET: 1, PATCH: 1 });
  node.state.nowMs += 1000;
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
  node.state.nowMs += 60_000;
  await expect(node.placement.run()).rejects.toThrow();
  node.state.nowMs += 120_000;
  await node.placement.run();
  expect(node.capacity()).toEqual({});
  expect(node.placement.latest).toEqual([]);
  const before = node.requests();
  await node.placement.run();
  expect(node.requests()).toEqual(before);
});

test("what a write has changed is removed, although its answer was lost", async ({
  node,
  kube,
}) => {
  const { read, write } = kube.marks;
  const lost = async (...marks: Parameters<typeof write>): Promise<void> => {
    await write(...marks);
    throw new Error("the answer is lost");
  };
  const spy = vi.spyOn(kube.marks, "write").mockImplementationOnce(lost);
  const { state } = node;
  const placement = new NetworkPlacement({
    marks: () => state.marks,
    networks: async () => state.networks,
    readiness: () => [],
    node: { read, write: (...marks) => kube.marks.write(...marks) },
  });
  await expect(placement.run()).rejects.toThrow("lost");
  expect([node.labels(), spy.mock.calls.length]).toEqual([["lan"], 1]);
  state.marks = [];
  state.nowMs += 120_000;
  await placement.run();
  expect([node.labels(), node.capacity()]).toEqual([[], {}]);
});

test("the condition is true when all networks can be used and plexusd is ready", async ({
  node,
}) => {
  node.state.marks = ["condition"];
  node.state.networks = [network("a", false), network("b", false), network("c")];
  await node.placement.run();
  const reason = "NetworkUnavailable";
  const message = "shop/a: MasterMissing, and 1 more";
  expect(node.condition()).toMatchObject({
    type: "NetworksReady",
    status: "False",
    reason,
    message,
  });
  expect([node.labels(), node.capacity()]).toEqual([[], {}]);
  node.state.networks = [network("c")];
  await node.placement.run();
  expect(node.condition()).toMatchObject({ status: "True", reason: "NetworkAvailable" });
  expect(node.requests()).toEqual({ GET: 1, PATCH: 2 });
});

test("the condition does not change with what else may be meant by a missing link", async ({
  node,
}) => {
  node.state.marks = ["condition"];
  for (const message of ["no link", "no link; did you mean veth1?", "no link"]) {
    node.state.networks = [{ ...network("a", false), message }];
    await node.placement.run();
  }
  expect(node.requests()).toEqual({ GET: 1, PATCH: 1 });
});

test.for<[string, (state: NodeState) => void, (state: NodeState) => void, string]>([
  [
    "a network is missing",
    (state) => (state.networks = [network("lan", false)]),
    (state) => (state.networks = [network("lan")]),
    "shop/lan: MasterMissing",
  ],
  [
    "the definitions are not listed",
    (state) => Object.assign(state, { networks: undefined, reasons: ["nothing is listed"] }),
    (state) => Object.assign(state, { networks: [network("lan")], reasons: [] }),
    "plexusd: nothing is listed",
  ],
])(
  "the condition is false after two runs in which %s, also after a restart",
  async ([, lose, find, message], { node }) => {
    node.state.marks = ["condition"];
    await node.placement.run();
    lose(node.state);
    const restarted = node.newPlacement();
    await restarted.run();
    expect(node.condition()).toMatchObject({ status: "True" });
    find(node.state);
    await restarted.run();
    lose(node.state);
    await restarted.run();
    expect(node.condition()).toMatchObject({ status: "True" });
    await restarted.run();
    expect(node.condition()).toMatchObject({ status: "False", message });
    expect(node.requests()).toEqual({ GET: 2, PATCH: 2 });
  },
);

test("labels stay while the definitions are not listed, although the condition changes", async ({
  node,
}) => {
  node.state.marks = ["labels", "condition"];
  await node.placement.run();
  Object.assign(node.state, { networks: undefined, reasons: ["nothing is listed"] });
  for (let i = 0; i < 3; i++) await node.placement.run();
  expect(node.condition()).toMatchObject({ status: "False" });
  expect(node.labels()).toEqual(["lan"]);
});

test("a network of devices is no matter of the Node's labels", async ({ node }) => {
  const { label: _, ...devices } = network("devices");
  node.state.networks = [devices, network("lan")];
  await node.placement.run();
  expect(node.labels()).toEqual(["lan"]);
});
