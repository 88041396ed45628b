import { expect, onTestFinished } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { ApiClient } from "#kube/api/client.ts";
import { kubeconfigCredentials } from "#kube/api/kubeconfig.ts";
import type { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import { kubeTest as test } from "#kube/testing/kube-test.ts";
import type { SeenRequest } from "#kube/testing/requests.ts";
import { type JsonObject, objectOf, objectsOf } from "#lib/json.ts";
import { eventually } from "#lib/testing/eventually.ts";
import { EndpointsController } from "./controller.ts";
import { networkPod, networkService } from "./testing/objects.ts";

const slices = "endpointslices";

/** A process of `plexusctl endpoints`, until `stop` or the end of the test. */
async function start(api: FakeApiServer, identity = "one") {
  const client = new ApiClient(await kubeconfigCredentials(await api.kubeconfig()));
  const logger = new FakeLogger();
  const controller = new EndpointsController({ client, namespace: "plexus", identity, logger });
  const stopping = new AbortController();
  const running = controller.run(stopping.signal);
  const stop = async (): Promise<void> => {
    stopping.abort();
    await running;
    client.close();
  };
  onTestFinished(stop);
  return { logger, stop };
}

/** The writes of slices since the last call. */
function writesOf(api: FakeApiServer): string[] {
  const isWrite = ({ method, path }: SeenRequest): boolean =>
    method !== "GET" && path.includes(`/${slices}`);
  const writes = api.seen.filter(isWrite).map(({ method, path }) => `${method} ${path}`);
  api.seen.length = 0;
  return writes;
}

/** Two bursts later, whatever changed has been written. */
const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 1100));

/** The addresses in the slices of a Service, those of each family apart. */
function addresses(api: FakeApiServer, service = "db"): unknown[] {
  const own = [...api.objects(slices).values()].filter(
    ({ metadata }) => objectOf(objectOf(metadata).labels)["kubernetes.io/service-name"] === service,
  );
  const lists = own.map(({ endpoints }) => objectsOf(endpoints).flatMap((each) => each.addresses));
  return lists.toSorted((a, b) => `${a}`.localeCompare(`${b}`));
}

const both = (end: number): string[] => [`10.1.0.${end}`, `fd00::${end}`];

const one = [["10.1.0.1"], ["fd00::1"]];
const two = [
  ["10.1.0.1", "10.1.0.2"],
  ["fd00::1", "fd00::2"],
];

/** `db` with two pods, as it is written. */
async function startWithTwoPods(api: FakeApiServer) {
  api.put("services", networkService("db"));
  for (const end of [1, 2]) api.put("pods", networkPod(`pod-${end}`, both(end)));
  const started = await start(api);
  await eventually(() => expect(addresses(api)).toEqual(two));
  await settled();
  expect(writesOf(api)).toHaveLength(2);
  return started;
}

test("a pod that is not ready, unplugged, ending or deleted leaves the slices, with one write of each", async ({
  api,
}) => {
  await startWithTwoPods(api);
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
}) => {
  await startWithTwoPods(api);
  for (let end = 3; end < 100; end++) api.put("pods", networkPod(`pod-${end}`, both(end)));
  await settled();
  expect(writesOf(api)).toHaveLength(2);
  api.put("pods", { ...networkPod("pod-1", both(1)), spec: { nodeName: "node-1", x: "y" } });
  api.put("pods", networkPod("other", both(101), { labels: { app: "web" } }));
  await settled();
  expect(writesOf(api)).toEqual([]);
});

test("after a restart nothing is written, if nothing has changed meanwhile", async ({ api }) => {
  const first = await startWithTwoPods(api);
  await first.stop();
  await start(api, "two");
  await settled();
  await settled();
  expect(writesOf(api)).toEqual([]);
  api.delete("pods", "default/pod-2");
  await eventually(() => expect(addresses(api)).toEqual(one));
});

test("a list that the API server has as null is empty", async ({ api }) => {
  api.put("services", networkService("db", { spec: { clusterIP: "None", ports: null } }));
  api.put("pods", networkPod("pod-1", both(1)));
  const first = await start(api);
  await eventually(() => expect(addresses(api)).toEqual(one));
  await first.stop();
  for (const [, slice] of [...api.objects(slices)]) api.put(slices, { ...slice, ports: null });
  writesOf(api);
  await start(api, "two");
  await settled();
  await settled();
  expect(writesOf(api)).toEqual([]);
});

test("a process without the lease writes nothing", async ({ api }) => {
  api.put("services", networkService("db"));
  api.put("pods", networkPod("pod-1", both(1)));
  api.put("leases", {
    metadata: { namespace: "plexus", name: "plexus-endpoints" },
    spec: { holderIdentity: "other" },
  });
  await start(api);
  await settled();
  await settled();
  expect(writesOf(api)).toEqual([]);
});

test("a process that ends leaves the slices", async ({ api }) => {
  const first = await startWithTwoPods(api);
  await first.stop();
  api.delete("pods", "default/pod-2");
  await settled();
  expect(addresses(api)).toEqual(two);
  expect(writesOf(api)).toEqual([]);
});

test("of two processes, one writes, and the other when that ends", async ({ api }) => {
  const first = await startWithTwoPods(api);
  await start(api, "two");
  await settled();
  api.delete("pods", "default/pod-2");
  await eventually(() => expect(addresses(api)).toEqual(one));
  expect(writesOf(api)).toHaveLength(2);
  await first.stop();
  api.delete("pods", "default/pod-1");
  await eventually(() => expect(addresses(api)).toEqual([]));
});

test("slices of others stay as they are, even with the name of one that Plexus would write", async ({
  api,
}) => {
  const first = await startWithTwoPods(api);
  const [ours = ["", {}]] = [...api.objects(slices)];
  await first.stop();
  const labels = { "kubernetes.io/service-name": "db" };
  const foreign = (name: string): JsonObject => ({
    metadata: { namespace: "default", name, labels },
  });
  api.delete(slices, ours[0]);
  const name = ours[0].replace("default/", "");
  for (const each of [name, "of-others"]) api.put(slices, foreign(each));
  const before = structuredClone([
    api.objects(slices).get(ours[0]),
    api.objects(slices).get("default/of-others"),
  ]);
  const second = await start(api, "two");
  await eventually(() => expect(second.logger.at("warn")).toContain("endpoints not written"));
  expect([api.objects(slices).get(ours[0]), api.objects(slices).get("default/of-others")]).toEqual(
    before,
  );
});

test("what somebody else changes in our slices is restored", async ({ api }) => {
  await startWithTwoPods(api);
  const [[, slice]] = [...api.objects(slices)] as [[string, JsonObject]];
  api.put(slices, { ...slice, endpoints: [] });
  await eventually(() => expect(addresses(api)).toContainEqual(["10.1.0.1", "10.1.0.2"]));
  const [[key]] = [...api.objects(slices)] as [[string, JsonObject]];
  api.delete(slices, key);
  await eventually(() => expect(addresses(api)).toHaveLength(2));
});

test("a Service without the annotations loses its slices", async ({ api }) => {
  await startWithTwoPods(api);
  api.put("services", { metadata: { namespace: "default", name: "db", uid: "uid-of-db" } });
  await eventually(() => expect(addresses(api)).toEqual([]));
  expect(writesOf(api).map((each) => each.split(" ")[0])).toEqual(["DELETE", "DELETE"]);
});

test("an invalid Service keeps its slices, and an event says what is wrong", async ({ api }) => {
  await startWithTwoPods(api);
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
  await settled();
  expect(addresses(api)).toEqual(two);
  expect(events().map(({ count }) => count)).toEqual([1]);
});

test("a write that fails is repeated, and holds no other Service up", async ({ api }) => {
  await startWithTwoPods(api);
  api.script({
    when: ({ method, path }) => method === "PATCH" && path.includes("/db-plexus"),
    answer: 500,
  });
  api.delete("pods", "default/pod-2");
  await eventually(() => expect(addresses(api)).toContainEqual(["10.1.0.1", "10.1.0.2"]));
  api.put("services", networkService("other"));
  await eventually(() => expect(addresses(api, "other")).toEqual(one));
  await eventually(() => expect(addresses(api)).toEqual(one));
});

test("1,000 Services with 5,000 pods: a change of a pod is a write of each of its slices", async ({
  api,
}) => {
  const count = 1000;
  for (let i = 0; i < count; i++) {
    const annotations = { "plexus.dev/selector": `app=db-${i}` };
    api.put("services", networkService(`db-${i}`, { annotations }));
  }
  const put = (i: number, options: { isReady?: boolean } = {}): void => {
    const ips = [`10.1.${i >> 8}.${i & 255}`, `fd00::${i.toString(16)}`];
    const labels = { app: `db-${i % count}` };
    api.put("pods", networkPod(`pod-${i}`, ips, { labels, ...options }));
  };
  for (let i = 0; i < 5 * count; i++) put(i + 1);
  const first = await start(api);
  await eventually(() => expect(api.objects(slices).size).toBe(2 * count));
  await settled();
  expect(writesOf(api)).toHaveLength(2 * count);
  put(1, { isReady: false });
  await settled();
  expect(writesOf(api)).toHaveLength(2);
  for (let i = 0; i < 50; i++) put(2 + (i * count) / 250, { isReady: false });
  await settled();
  expect(writesOf(api)).toHaveLength(100);
  await first.stop();
  await start(api, "two");
  await settled();
  await settled();
  put(1);
  await eventually(() =>
    expect(addresses(api, "db-1").map((each) => (each as string[]).length)).toEqual([5, 5]),
  );
  expect(writesOf(api)).toHaveLength(2);
}, 120_000);
