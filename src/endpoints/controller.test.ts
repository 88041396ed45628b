import { expect } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { ApiClient } from "#kube/api/client.ts";
import { kubeconfigCredentials } from "#kube/api/kubeconfig.ts";
import type { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import { kubeTest } from "#kube/testing/kube-test.ts";
import { isGet, type SeenRequest } from "#kube/testing/requests.ts";
import { type JsonObject, objectOf, objectsOf } from "#lib/json.ts";
import { eventually } from "#lib/testing/eventually.ts";
import { EndpointsController } from "./controller.ts";
import { heldLease, networkPod, networkService } from "./testing/objects.ts";

const slices = "endpointslices";

/** Tests with what starts a process of `plexusctl endpoints`, until its `stop` or the end of the test. */
const { concurrent: test } = kubeTest.extend("start", async ({ api }, { onCleanup }) => {
  api.put("leases", heldLease(""));
  const started: { stop(): Promise<void> }[] = [];
  onCleanup(async () => {
    for (const { stop } of started) await stop();
  });
  return async (identity = "one") => {
    const client = new ApiClient(await kubeconfigCredentials(await api.kubeconfig()));
    const logger = new FakeLogger();
    const lease = { namespace: "plexus", identity, renewMs: 100 };
    const controller = new EndpointsController({ client, logger, ...lease });
    const stopping = new AbortController();
    const running = controller.run(stopping.signal);
    const stop = async (): Promise<void> => {
      stopping.abort();
      await running;
      client.close();
    };
    started.push({ stop });
    return { logger, stop };
  };
});

type Start = (identity?: string) => Promise<{ logger: FakeLogger; stop(): Promise<void> }>;

const isSliceWrite = ({ method, path }: SeenRequest): boolean =>
  method !== "GET" && path.includes(`/${slices}`);

const writesAre = (api: FakeApiServer): string[] =>
  api.seen.filter(isSliceWrite).map(({ method }) => method);

/** The writes of slices since the last call. */
function writesOf(api: FakeApiServer): string[] {
  const writes = api.seen.filter(isSliceWrite).map(({ method, path }) => `${method} ${path}`);
  api.seen.length = 0;
  return writes.filter((each) => !each.includes("/marker-"));
}

/** The addresses in the slices of a Service, those of each family apart. */
function addresses(api: FakeApiServer, service = "db"): unknown[] {
  const own = [...api.objects(slices).values()].filter(
    ({ metadata }) => objectOf(objectOf(metadata).labels)["kubernetes.io/service-name"] === service,
  );
  const lists = own.map(({ endpoints }) => objectsOf(endpoints).flatMap((each) => each.addresses));
  return lists.toSorted((a, b) => `${a}`.localeCompare(`${b}`));
}

/** Waits until a process has compared all Services and pods that are there now. */
async function compared(api: FakeApiServer): Promise<void> {
  const name = `marker-${api.versions.current}`;
  const selector = { "plexus.dev/selector": `app=${name}` };
  api.put("pods", networkPod(name, ["10.2.0.1"], { labels: { app: name } }));
  api.put("services", networkService(name, { annotations: selector }));
  await eventually(() => expect(addresses(api, name)).toEqual([["10.2.0.1"]]));
}

/** Waits until there are as many writes, and no further ones. */
async function written(api: FakeApiServer, count: number): Promise<void> {
  await eventually(() => expect(writesAre(api).length).toBeGreaterThanOrEqual(count));
  await compared(api);
  expect(writesOf(api)).toHaveLength(count);
}

const both = (end: number): string[] => [`10.1.0.${end}`, `fd00::${end}`];

const one = [["10.1.0.1"], ["fd00::1"]];
const two = [
  ["10.1.0.1", "10.1.0.2"],
  ["fd00::1", "fd00::2"],
];

/** `db` with two pods, as it is written. */
async function startWithTwoPods(api: FakeApiServer, start: Start) {
  api.put("services", networkService("db"));
  for (const end of [1, 2]) api.put("pods", networkPod(`pod-${end}`, both(end)));
  const started = await start();
  await written(api, 2);
  expect(addresses(api)).toEqual(two);
  return started;
}

test("1,000 Services with 5,000 pods: a change of a pod is a write of its slice", async ({
  api,
  start,
}) => {
  const count = 1000;
  for (let i = 0; i < count; i++) {
    const annotations = { "plexus.dev/selector": `app=db-${i}` };
    api.put("services", networkService(`db-${i}`, { annotations }));
  }
  const put = (i: number, options: { isReady?: boolean } = {}): void => {
    const ips = [`10.1.${i >> 8}.${i & 255}`];
    const labels = { app: `db-${i % count}` };
    api.put("pods", networkPod(`pod-${i}`, ips, { labels, ...options }));
  };
  for (let i = 0; i < 5 * count; i++) put(i + 1);
  const first = await start();
  await written(api, count);
  put(1, { isReady: false });
  await written(api, 1);
  for (let i = 0; i < 50; i++) put(2 + (i * count) / 250, { isReady: false });
  await written(api, 50);
  await first.stop();
  await start("two");
  put(1);
  await written(api, 1);
});

test("a write that fails is repeated, and holds no other Service up", async ({ api, start }) => {
  await startWithTwoPods(api, start);
  api.script({ when: isSliceWrite, answer: 500 });
  api.delete("pods", "default/pod-2");
  await eventually(() => expect(addresses(api)).toEqual(one));
  const isOfDb = ({ path }: SeenRequest) => path.includes("/db-plexus");
  api.script({ when: isOfDb, answer: 500, times: Number.POSITIVE_INFINITY });
  api.put("pods", networkPod("pod-2", both(2)));
  await compared(api);
  expect(addresses(api)).toEqual(one);
});

test("a slice that is refused, or a write that hangs, keeps no other dead pod", async ({
  api,
  start,
}) => {
  const selector = { "plexus.dev/selector": "app=web" };
  api.put("services", networkService("web", { annotations: selector }));
  api.put("pods", networkPod("web", ["10.1.0.9"], { labels: { app: "web" } }));
  api.put("services", networkService("db"));
  for (const end of [1, 2]) api.put("pods", networkPod(`pod-${end}`, [`10.1.0.${end}`]));
  await start();
  await eventually(() => expect(addresses(api)).toEqual([["10.1.0.1", "10.1.0.2"]]));
  const isCreated = ({ query }: SeenRequest) => query.get("force") === "false";
  api.script({ when: isCreated, answer: 403, times: Number.POSITIVE_INFINITY });
  api.put("pods", networkPod("pod-1", both(1)));
  await eventually(() => expect(api.seen.filter(isCreated)).not.toHaveLength(0));
  api.delete("pods", "default/pod-2");
  await eventually(() => expect(addresses(api)).toEqual([["10.1.0.1"]]));
  const isOfDb = ({ path }: SeenRequest) => path.includes("/db-plexus");
  api.script({ when: isOfDb, answer: "hang", times: Number.POSITIVE_INFINITY });
  const before = api.seen.filter(isOfDb).length;
  api.put("pods", networkPod("pod-2", ["10.1.0.2"]));
  await eventually(() => expect(api.seen.filter(isOfDb).length).toBeGreaterThan(before));
  api.delete("pods", "default/web");
  await eventually(() => expect(addresses(api, "web")).toEqual([]));
});

const forged = [{ name: "default/red", ips: [{ toString: 1 }] }, { name: { toString: 1 } }];

test.for([
  ["starts", "before"],
  ["runs", "after"],
])(
  "a status that a user has forged stops nothing while it %s",
  async ([, when], { api, start }) => {
    const forge = (): void =>
      api.put("pods", networkPod("evil", [], { namespace: "tenant", status: forged }));
    if (when === "before") forge();
    await startWithTwoPods(api, start);
    if (when === "after") forge();
    api.delete("pods", "default/pod-2");
    await eventually(() => expect(addresses(api)).toEqual(one));
  },
);

test("a pod that is not ready, unplugged, ending or deleted leaves the slices, with one write of each", async ({
  api,
  start,
}) => {
  await startWithTwoPods(api, start);
  const away: readonly (() => void)[] = [
    () => api.put("pods", networkPod("pod-2", both(2), { isReady: false })),
    () => api.put("pods", networkPod("pod-2", [])),
    () => api.put("pods", networkPod("pod-2", both(2), { deletionTimestamp: "2026-01-01" })),
    () => api.delete("pods", "default/pod-2"),
  ];
  for (const leave of away) {
    leave();
    await eventually(() => expect(addresses(api)).toEqual(one));
    api.put("pods", networkPod("pod-2", both(2)));
    await eventually(() => expect(addresses(api)).toEqual(two));
    expect(writesOf(api)).toHaveLength(4);
  }
});

test("many changes at once are one write of each slice; what changes no endpoint is none", async ({
  api,
  start,
}) => {
  await startWithTwoPods(api, start);
  for (let end = 3; end < 100; end++) api.put("pods", networkPod(`pod-${end}`, both(end)));
  await written(api, 2);
  api.put("pods", { ...networkPod("pod-1", both(1)), spec: { nodeName: "node-1", x: "y" } });
  api.put("pods", networkPod("other", both(101), { labels: { app: "web" } }));
  await compared(api);
  expect(writesOf(api)).toEqual([]);
});

test("after a restart nothing is written, if nothing has changed meanwhile", async ({
  api,
  start,
}) => {
  const first = await startWithTwoPods(api, start);
  await first.stop();
  await start("two");
  await compared(api);
  expect(writesOf(api)).toEqual([]);
  api.delete("pods", "default/pod-2");
  await eventually(() => expect(addresses(api)).toEqual(one));
});

test("neither a list that the API server has as null nor what others add is a change", async ({
  api,
  start,
}) => {
  api.put("services", networkService("db", { spec: { clusterIP: "None", ports: null } }));
  api.put("pods", networkPod("pod-1", both(1)));
  await start();
  await written(api, 2);
  const hinted = (endpoint: JsonObject) => ({ ...endpoint, hints: { forZones: [{ name: "a" }] } });
  for (const slice of [...api.objects(slices).values()])
    api.put(slices, {
      ...slice,
      ports: null,
      endpoints: objectsOf(slice.endpoints).map(hinted),
    });
  await compared(api);
  expect(writesOf(api)).toEqual([]);
});

test("a Service of another network gets that network's addresses in the same slices", async ({
  api,
  start,
}) => {
  await startWithTwoPods(api, start);
  const entry = { name: "default/blue", ips: ["10.3.0.1", "fd03::1"] };
  api.put("pods", networkPod("pod-1", [], { status: [entry] }));
  api.put("services", networkService("db", { annotations: { "plexus.dev/network": entry.name } }));
  await eventually(() => expect(addresses(api)).toEqual([["10.3.0.1"], ["fd03::1"]]));
  expect(writesOf(api).map((each) => each.split(" ")[0])).toEqual(["PATCH", "PATCH"]);
});

test("endpoints that move are in the new slice before they leave the old one", async ({
  api,
  start,
}) => {
  await startWithTwoPods(api, start);
  const spec = { ports: [{ name: "sql", port: 5433, protocol: "TCP" }] };
  api.put("services", networkService("db", { spec }));
  await eventually(() => expect(writesAre(api)).toEqual(["PATCH", "PATCH", "DELETE", "DELETE"]));
  expect(addresses(api)).toEqual(two);
});

test("a process without the lease writes nothing", async ({ api, start }) => {
  api.put("services", networkService("db"));
  api.put("pods", networkPod("pod-1", both(1)));
  api.put("leases", heldLease("other"));
  const { logger } = await start();
  const reads = () => api.seen.filter(isGet("plexus-endpoints"));
  await eventually(() => expect(api.watching(slices)).toBe(1));
  const before = reads().length;
  // A burst later.
  await eventually(() => expect(reads().length).toBeGreaterThan(before + 6));
  expect([writesOf(api), logger.at("warn")]).toEqual([[], []]);
});

test("a process that loses the lease while it writes does not send the rest", async ({
  api,
  start,
}) => {
  const { logger } = await startWithTwoPods(api, start);
  const { promise, resolve } = Promise.withResolvers<void>();
  api.script({ when: isSliceWrite, times: 2, answer: promise });
  const spec = { ports: [{ name: "sql", port: 5433, protocol: "TCP" }] };
  api.put("services", networkService("db", { spec }));
  await eventually(() => expect(writesAre(api)).toEqual(["PATCH", "PATCH"]));
  api.put("leases", heldLease("other"));
  const asked = api.seen.length;
  const reads = () => api.seen.slice(asked).filter(isGet("plexus-endpoints"));
  await eventually(() => expect(reads()).toHaveLength(1));
  resolve();
  await eventually(() => expect(logger.at("warn")).toContain("endpoints not written"));
  expect(writesAre(api)).toEqual(["PATCH", "PATCH"]);
});

test("a write that arrives late, when another process has written the slice, is refused", async ({
  api,
  start,
}) => {
  await startWithTwoPods(api, start);
  const { promise, resolve } = Promise.withResolvers<void>();
  api.script({ when: isSliceWrite, answer: promise });
  api.delete("pods", "default/pod-2");
  await eventually(() => expect(api.seen.filter(isSliceWrite)).toHaveLength(2));
  const name = api.seen.find(isSliceWrite)?.path.split("/").at(-1);
  const written = { ...api.objects(slices).get(`default/${name}`), endpoints: [] };
  api.put(slices, written);
  resolve();
  await eventually(() => expect(addresses(api)).toEqual(one));
  expect(writesOf(api)).toHaveLength(3);
});

test("a process that ends leaves the slices", async ({ api, start }) => {
  const first = await startWithTwoPods(api, start);
  await first.stop();
  expect(addresses(api)).toEqual(two);
  expect(writesOf(api)).toEqual([]);
});

test("of two processes, one writes, and the other when that ends", async ({ api, start }) => {
  const first = await startWithTwoPods(api, start);
  await start("two");
  await eventually(() => expect(api.watching("pods")).toBe(2));
  api.delete("pods", "default/pod-2");
  await written(api, 2);
  expect(addresses(api)).toEqual(one);
  await first.stop();
  api.delete("pods", "default/pod-1");
  await eventually(() => expect(addresses(api)).toEqual([]));
});

test("slices of others stay as they are, even with the name of one that Plexus would write", async ({
  api,
  start,
}) => {
  const first = await startWithTwoPods(api, start);
  const [ours = ""] = [...api.objects(slices).keys()].filter((key) => key.includes("/db-"));
  await first.stop();
  api.delete(slices, ours);
  const labels = { "kubernetes.io/service-name": "db" };
  const keys = [ours, "default/of-others"];
  for (const name of keys.map((key) => key.replace("default/", "")))
    api.put(slices, { metadata: { namespace: "default", name, labels } });
  const foreign = () => keys.map((key) => api.objects(slices).get(key));
  const before = structuredClone(foreign());
  const second = await start("two");
  await eventually(() => expect(second.logger.at("warn")).toContain("endpoints not written"));
  expect(foreign()).toEqual(before);
});

test("what somebody else changes in our slices is restored", async ({ api, start }) => {
  await startWithTwoPods(api, start);
  const ours = () => [...api.objects(slices)].find(([key]) => key.includes("/db-")) ?? ["", {}];
  api.put(slices, { ...ours()[1], endpoints: [] });
  await eventually(() => expect(addresses(api)).toEqual(two));
  api.delete(slices, ours()[0]);
  await eventually(() => expect(addresses(api)).toEqual(two));
});

test("a Service without the annotations loses its slices", async ({ api, start }) => {
  const { logger } = await startWithTwoPods(api, start);
  // The garbage collector was faster.
  api.script({ when: isSliceWrite, answer: 404 });
  api.put("services", { metadata: { namespace: "default", name: "db", uid: "uid-of-db" } });
  await eventually(() => expect(addresses(api)).toEqual([]));
  expect(new Set(writesAre(api))).toEqual(new Set(["DELETE"]));
  expect(logger.at("warn")).toEqual([]);
});

test("an invalid Service keeps its slices, and one event says what is wrong", async ({
  api,
  start,
}) => {
  await startWithTwoPods(api, start);
  const annotations = { "plexus.dev/network": "red" };
  api.put("services", networkService("db", { annotations }));
  const events = (): JsonObject[] => [...api.objects("events").values()];
  await eventually(() => expect(events()).toHaveLength(1));
  expect(events()[0]).toMatchObject({
    type: "Warning",
    reason: "InvalidAnnotation",
    involvedObject: { kind: "Service", namespace: "default", name: "db", uid: "uid-of-db" },
    message: 'plexus.dev/network must be NAMESPACE/NAME, got "red"',
  });
  api.delete("pods", "default/pod-2");
  await compared(api);
  expect(addresses(api)).toEqual(two);
  expect(events().map(({ count }) => count)).toEqual([1]);
});
