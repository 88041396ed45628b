import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { ApiClient } from "#kube/api/client.ts";
import { RereadCredentials } from "#kube/api/credentials.ts";
import { kubeconfigCredentials } from "#kube/api/kubeconfig.ts";
import { apiPaths } from "#kube/api/paths.ts";
import type { RestartReason } from "#kube/metric-labels.ts";
import { podOf } from "#kube/objects.ts";
import type { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import { startIdleProxy } from "#kube/testing/idle-proxy.ts";
import { kubeTest as test } from "#kube/testing/kube-test.ts";
import { podObject } from "#kube/testing/objects.ts";
import { isList, isWatch } from "#kube/testing/requests.ts";
import { pause } from "#lib/concurrency/deadline.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { eventually } from "#lib/testing/eventually.ts";
import type { WatchTimings } from "./list-watch.ts";
import { WatchCache } from "./watch-cache.ts";

const quick: Partial<WatchTimings> = {
  backoff: { initialMs: 5, maxMs: 20 },
  requestTimeoutMs: 1000,
  idleMs: 2000,
  absentMs: 20,
};

function startCache(
  client: ApiClient,
  options: { timings?: Partial<WatchTimings>; mayBeAbsent?: boolean; path?: string } = {},
) {
  const restarts: RestartReason[] = [];
  const synced: boolean[] = [];
  let updates = 0;
  const logger = new FakeLogger();
  const cache = new WatchCache<string>({
    resource: "pods",
    path: options.path ?? apiPaths.pods,
    query: { fieldSelector: "spec.nodeName=node-1" },
    decode: (object) => podOf(object).uid,
    client,
    logger,
    timings: { ...quick, ...options.timings },
    ...omitUndefined({ mayBeAbsent: options.mayBeAbsent }),
    metrics: {
      cacheSynced: (_, each) => synced.push(each),
      cacheUpdated: () => updates++,
      watchRestarted: (_, reason) => restarts.push(reason),
    },
  });
  const running = cache.run();
  return {
    cache,
    restarts,
    synced,
    updates: () => updates,
    logger,
    whenSynced: () => eventually(() => expect(cache.synced).toBe(true)),
    [Symbol.asyncDispose]: async (): Promise<void> => {
      cache.stop();
      await running;
    },
  };
}

const expired = { kind: "Status", code: 410, reason: "Expired", message: "too old" };

const watches = (api: FakeApiServer) => api.seen.filter(isWatch("pods"));
const lists = (api: FakeApiServer) => api.seen.filter(isList("pods"));

test("listen() delivers each listed object, change and end [H-40]", async ({ api, client }) => {
  api.put("pods", podObject("a"));
  api.put("pods", podObject("elsewhere", { node: "node-2" }));
  await using started = startCache(client);
  const { cache } = started;
  const heard: string[] = [];
  cache.listen((key, uid) => void heard.push(`${key} ${uid}`));
  await eventually(() => expect(api.watching("pods")).toBe(1));
  expect(started.synced).toEqual([false, true]);
  api.put("pods", podObject("b"));
  api.put("pods", podObject("other", { node: "node-2" }));
  api.put("pods", podObject("a", { uid: "second" }));
  await eventually(() => expect(heard).toHaveLength(3));
  expect(heard).toEqual(["default/a uid-of-a", "default/b uid-of-b", "default/a second"]);
  api.delete("pods", "default/b");
  await eventually(() => expect(heard.at(-1)).toBe("default/b undefined"));
  expect([...cache.values()]).toEqual(["second"]);
  // Only a LIST shows what happened while there was no watch.
  api.delete("pods", "default/a");
  api.emit("pods", `${JSON.stringify({ type: "ERROR", object: expired })}\n`);
  await eventually(() => expect(heard.at(-1)).toBe("default/a undefined"));
});

test("receives what changes between its LIST and its WATCH", async ({ api, client }) => {
  const { promise, resolve } = Promise.withResolvers<void>();
  api.script({ when: isWatch("pods"), answer: promise });
  await using started = startCache(client);
  await started.whenSynced();
  api.put("pods", podObject("b"));
  resolve();
  await eventually(() => expect([...started.cache.values()]).toEqual(["uid-of-b"]));
  expect(lists(api)).toHaveLength(1);
});

test("requests smaller pages when a response is too long", async ({ api, client }) => {
  for (let i = 0; i < 17; i++) {
    api.put("pods", podObject(`p${i}`, { annotations: { note: "x".repeat(1_000_000) } }));
  }
  await using started = startCache(client, { timings: { requestTimeoutMs: 30_000 } });
  await started.whenSynced();
  expect([...started.cache.values()]).toHaveLength(17);
  expect(started.restarts).toEqual([]);
  const asked = lists(api).map(({ query }) => [query.get("resourceVersion"), query.get("limit")]);
  expect(asked).toEqual([
    ["0", "500"],
    ["", "63"],
    ["", "8"],
    [null, "8"],
    [null, "8"],
  ]);
});

test("resumes from the last bookmark after a server's timeout", async ({ api, client }) => {
  api.put("pods", podObject("a"));
  await using started = startCache(client);
  await eventually(() => expect(api.watching("pods")).toBe(1));
  expect(started.updates()).toBe(1);
  expect(watches(api)[0]?.query.get("allowWatchBookmarks")).toBe("true");
  expect(Number(watches(api)[0]?.query.get("timeoutSeconds"))).toBeGreaterThan(0);
  api.put("nads", podObject("unrelated"));
  api.bookmark("pods");
  await eventually(() => expect(started.updates()).toBe(2));
  api.endWatches("pods");
  await eventually(() => expect(watches(api)).toHaveLength(2));
  expect(watches(api).map((each) => each.query.get("resourceVersion"))).toEqual(["101", "102"]);
  expect(lists(api)).toHaveLength(1);
});

test.for<[string, (api: FakeApiServer) => void]>([
  [
    "an ERROR event",
    (api) => api.emit("pods", `${JSON.stringify({ type: "ERROR", object: expired })}\n`),
  ],
  [
    "HTTP 410",
    (api) => {
      api.script({ when: isWatch("pods"), answer: 410, body: expired });
      api.endWatches("pods", "break");
    },
  ],
  ["a restart of the server without its history", (api) => api.restart()],
])("lists again, once, after %s", async ([, expire], { api, client }) => {
  api.put("pods", podObject("a"));
  api.put("pods", podObject("stale"));
  await using started = startCache(client);
  await eventually(() => expect(api.watching("pods")).toBe(1));
  api.delete("pods", "default/stale");
  expire(api);
  await eventually(() => expect(started.cache.get("default/stale")).toBeUndefined());
  expect(started.cache.get("default/a")).toBe("uid-of-a");
  expect(started.restarts).toContain("expired");
  await eventually(() => expect(api.watching("pods")).toBe(1));
  api.put("pods", podObject("b"));
  await eventually(() => expect(started.cache.get("default/b")).toBe("uid-of-b"));
  expect(lists(api)).toHaveLength(2);
});

test("lists without resourceVersion after that of a LIST expired", async ({ api, client }) => {
  api.script({ when: isList("pods"), answer: 410 });
  await using started = startCache(client);
  await started.whenSynced();
  expect(lists(api).map((each) => each.query.get("resourceVersion"))).toEqual(["0", ""]);
});

test.for<[string, (api: FakeApiServer) => void]>([
  ["its connection is reset", (api) => api.endWatches("pods", "break")],
  ["an event that is not JSON", (api) => api.emit("pods", "this is no event\n")],
  ["an event without an object", (api) => api.emit("pods", '{"type":"ADDED"}\n')],
])("resumes after %s, without a new LIST", async ([, disturb], { api, client }) => {
  await using started = startCache(client);
  await eventually(() => expect(api.watching("pods")).toBe(1));
  disturb(api);
  await eventually(() => expect(watches(api)).toHaveLength(2));
  await eventually(() => expect(api.watching("pods")).toBe(1));
  api.put("pods", podObject("late"));
  await eventually(() => expect(started.cache.get("default/late")).toBe("uid-of-late"));
  expect(lists(api)).toHaveLength(1);
  expect(started.restarts).toEqual(["disconnected"]);
});

test("detects a half-open connection by its silence", async ({ api, client }) => {
  await using started = startCache(client, { timings: { idleMs: 60 } });
  await eventually(() => expect(watches(api).length).toBeGreaterThan(1));
  expect(started.restarts).toContain("disconnected");
  expect(JSON.stringify(started.logger.lines)).toContain("nothing received for 60 ms");
});

test("times out a LIST and a WATCH without a response", async ({ api, client }) => {
  api.script({ when: isList("pods"), answer: "hang" });
  api.script({ when: isWatch("pods"), answer: "hang" });
  await using started = startCache(client, { timings: { requestTimeoutMs: 50 } });
  await started.whenSynced();
  await eventually(() => expect(api.watching("pods")).toBe(1));
  // On a busy machine, also one that has a response.
  expect(started.restarts.length).toBeGreaterThanOrEqual(2);
  expect(new Set(started.restarts)).toEqual(new Set(["disconnected"]));
});

test("waits for Retry-After after 429", async ({ api, client }) => {
  api.script({ when: isList("pods"), answer: 429, headers: { "retry-after": "0.15" } });
  const startedAt = performance.now();
  await using started = startCache(client);
  await started.whenSynced();
  expect(performance.now() - startedAt).toBeGreaterThan(140);
  expect(started.restarts).toEqual(["throttled"]);
});

test("backs off after 5xx, keeps its content, reports the failure", async ({ api, client }) => {
  api.put("pods", podObject("a"));
  await using started = startCache(client, {
    timings: { backoff: { initialMs: 50, maxMs: 50 } },
  });
  await eventually(() => expect(api.watching("pods")).toBe(1));
  api.script({ when: isWatch("pods"), answer: 503, times: 3 });
  api.endWatches("pods", "break");
  await eventually(() => expect(started.cache.failure?.status).toBe(503));
  expect(started.cache.get("default/a")).toBe("uid-of-a");
  await eventually(() => expect(api.watching("pods")).toBe(1));
  api.bookmark("pods");
  await eventually(() => expect(started.cache.failure).toBeUndefined());
});

test("backs off when the server ends every watch at once", async ({ api, client }) => {
  api.script({ when: isWatch("pods"), answer: 200, body: "", times: 1000 });
  await using started = startCache(client, {
    timings: { backoff: { initialMs: 40, maxMs: 40 } },
  });
  await started.whenSynced();
  await pause(200);
  expect(watches(api).length).toBeLessThan(12);
});

test("skips and logs invalid objects, also if they become invalid", async ({ api, client }) => {
  api.put("pods", podObject("a"));
  api.put("pods", podObject("b", { uid: "" }));
  api.objects("pods").set("default/nameless", { metadata: {}, spec: { nodeName: "node-1" } });
  await using started = startCache(client);
  await eventually(() => expect(api.watching("pods")).toBe(1));
  expect([...started.cache.values()]).toHaveLength(1);
  expect(started.logger.at("warn")).toEqual(["API object is invalid", "API object is invalid"]);
  const error = 'Pod "default/b": metadata.uid: is missing';
  expect(started.logger.lines[0]?.fields).toEqual({ resource: "pods", error });
  api.put("pods", podObject("a", { uid: "" }));
  await eventually(() => expect(started.logger.at("warn")).toHaveLength(3));
  expect(started.cache.get("default/a")).toBeUndefined();
});

test("assembles events that arrive in pieces", async ({ api, client }) => {
  await using started = startCache(client);
  await eventually(() => expect(api.watching("pods")).toBe(1));
  const line = `${JSON.stringify({ type: "ADDED", object: podObject("a", { uid: "uid-of-pièce" }) })}\n`;
  for (const byte of Buffer.from(line)
    .toString("latin1")
    .match(/.{1,40}/gs) ?? []) {
    api.emit("pods", Buffer.from(byte, "latin1"));
    await pause(1);
  }
  await eventually(() => expect(started.cache.get("default/a")).toBe("uid-of-pièce"));
});

test("is empty while the CRD of an optional resource is missing", async ({ api, client }) => {
  const nads = "network-attachment-definitions";
  api.absent.add(nads);
  await using started = startCache(client, { mayBeAbsent: true, path: apiPaths.nads });
  await started.whenSynced();
  expect([...started.cache.values()]).toHaveLength(0);
  expect(JSON.stringify(started.logger.lines)).toContain("apply its CRD");
  api.absent.clear();
  api.put(nads, podObject("a"));
  await eventually(() => expect(started.cache.get("default/a")).toBe("uid-of-a"));
});

/** A cache of definitions behind a proxy. */
async function behindProxy(
  api: FakeApiServer,
  { idleMs = 60_000, timings = {} }: { idleMs?: number; timings?: Partial<WatchTimings> } = {},
) {
  const proxy = await startIdleProxy(api.url, { idleMs });
  const client = new ApiClient(
    await kubeconfigCredentials(await api.kubeconfig({}, { server: proxy.url })),
  );
  const started = startCache(client, { mayBeAbsent: true, path: apiPaths.nads, timings });
  onTestFinished(async () => {
    await started[Symbol.asyncDispose]();
    client.close();
    await proxy[Symbol.asyncDispose]();
  });
  await started.whenSynced();
  return { ...started, proxy };
}

test("keeps its content and its version while a proxy answers itself", async ({ api }) => {
  const nads = "network-attachment-definitions";
  api.put(nads, podObject("a"));
  const { cache, proxy, restarts } = await behindProxy(api);
  await eventually(() => expect(api.watching(nads)).toBe(1));
  proxy.hasRoute = false;
  api.endWatches(nads, "break");
  await eventually(() => expect(restarts.filter((each) => each === "error").length).toBe(3));
  expect(cache.get("default/a")).toBe("uid-of-a");
  expect(restarts).not.toContain("absent");
  proxy.hasRoute = true;
  api.put(nads, podObject("b"));
  await eventually(() => expect(cache.get("default/b")).toBe("uid-of-b"));
  expect(api.seen.filter(isList(nads))).toHaveLength(1);
});

test("watches again at once when a proxy cuts watches that are idle", async ({ api }) => {
  const timings = { backoff: { initialMs: 50, maxMs: 60_000, factor: 100, jitter: 0 } };
  const { proxy, restarts } = await behindProxy(api, { idleMs: 1100, timings });
  await eventually(() => expect(proxy.cuts).toBeGreaterThan(3));
  expect(new Set(restarts)).toEqual(new Set(["disconnected"]));
});

test("lists again when no watch says anything: etcd was restored", async ({ api, client }) => {
  api.put("pods", podObject("a"));
  await using started = startCache(client, { timings: { idleMs: 150 } });
  await eventually(() => expect(api.watching("pods")).toBe(1));
  api.restore();
  await eventually(() => expect(api.watching("pods")).toBe(1));
  api.put("pods", podObject("b"));
  await eventually(() => expect(started.cache.get("default/b")).toBe("uid-of-b"));
});

test("requests smaller pages when a response takes too long", async () => {
  const asked: string[] = [];
  const server = createServer(({ url = "" }, response) => {
    const query = new URL(url, "http://fake").searchParams;
    if (query.has("watch")) return response.writeHead(200).flushHeaders();
    asked.push(`${query.get("resourceVersion")} ${query.get("limit")}`);
    const list = JSON.stringify({ metadata: { resourceVersion: "7" }, items: [podObject("a")] });
    const isLarge = Number(query.get("limit")) > 63;
    return isLarge ? response.write(list.slice(0, 20)) : response.end(list);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const read = async () => ({ server: url, tls: { rejectUnauthorized: true } });
  const client = new ApiClient(new RereadCredentials({ source: "the test", server: url, read }));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await using started = startCache(client, { timings: { requestTimeoutMs: 200 } });
  await started.whenSynced();
  expect(asked).toEqual(["0 500", " 63"]);
  expect(started.restarts).toEqual([]);
});

test("is not synced while a LIST is refused", async ({ api, client }) => {
  api.script({ when: isList("pods"), answer: 403, times: 1000 });
  await using started = startCache(client);
  await eventually(() => expect(started.restarts).toContain("refused"));
  expect(started.cache.synced).toBe(false);
});

test("the more nodes there are, the later one LISTs after an expired version; its cache serves", async ({
  api,
  client,
}) => {
  api.put("pods", podObject("a"));
  await using started = startCache(client);
  await eventually(() => expect(api.watching("pods")).toBe(1));
  started.cache.spreadOver(100_000_000);
  api.emit("pods", `${JSON.stringify({ type: "ERROR", object: expired })}\n`);
  await eventually(() => expect(started.restarts).toEqual(["expired"]));
  const delays = started.logger.lines.map(({ fields }) => fields?.delayMs ?? 0).map(Number);
  expect(Math.max(...delays)).toBeGreaterThan(500);
  expect(lists(api)).toHaveLength(1);
  expect(started.cache.get("default/a")).toBe("uid-of-a");
});
