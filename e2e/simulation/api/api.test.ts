import { beforeEach, describe, expect, test } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import type { ApiClient as RealApiClient } from "#kube/api/client.ts";
import { apiPaths } from "#kube/api/paths.ts";
import { metadataListOnly, metadataOnly, podOf } from "#kube/objects.ts";
import { ApiStatusPublisher } from "#kube/status-publisher.ts";
import { parseWatchEvent } from "#kube/watch/list-watch.ts";
import { WatchCache } from "#kube/watch/watch-cache.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";
import type { RequestFault } from "../world/faults.ts";
import { Random } from "../world/random.ts";
import { Process, Schedule } from "../world/schedule.ts";
import { enterWorld, type World } from "../world/world.ts";
import { ApiClient } from "./api-client.ts";
import { ApiServer } from "./api-server.ts";

const second = 1_000_000;
let outcomes: RequestFault["outcome"][];
let watchFaults: (number | "ends" | "expires" | "silent")[];
let notes: string[];
let writtenTooOften: string[];
let tooEarly: string[];
let schedule: Schedule;
let plexusd: Process;
let server: ApiServer;
let client: ApiClient;

beforeEach(() => {
  const random = new Random(1);
  schedule = new Schedule(random);
  plexusd = new Process("plexusd");
  [outcomes, watchFaults, notes, writtenTooOften, tooEarly] = [[], [], [], [], []];
  const faults = {
    request: () => ({ outcome: outcomes.shift() ?? "answered", delayUs: 1000 }),
    watch: () => watchFaults.shift() ?? 100,
  };
  const note = (text: () => string): unknown => notes.push(text());
  server = new ApiServer();
  const observer = {
    writtenTooOften: (details: string) => writtenTooOften.push(details),
    requestedTooEarly: (request: string) => tooEarly.push(request),
  };
  enterWorld({ random, schedule, faults, note, observer, api: server } as unknown as World);
  client = new ApiClient();
  server.putPod({
    namespace: "default",
    name: "web",
    uid: "u1",
    annotations: { "plexus.dev/a": "1" },
  });
});

/** Runs code as plexusd's, until it is over or for a simulated time. */
async function run<T>(
  code: () => Promise<T>,
  forUs = 1000 * second,
): Promise<T | string | undefined> {
  let result: T | string | undefined;
  const end = schedule.nowUs + forUs;
  let isOver = false;
  schedule.at(
    0,
    () => {
      code().then(
        (value) => {
          result = value;
          isOver = true;
        },
        (error: unknown) => {
          result = (error as Error).message;
          isOver = true;
        },
      );
    },
    plexusd,
  );
  schedule.at(forUs, () => undefined, schedule.outside);
  await schedule.run(() => isOver || schedule.nowUs >= end);
  return result;
}

const web = { namespace: "default", name: "web" };
const limits = { timeoutMs: 5000 };
const get = () => client.json({ path: apiPaths.pod(web), accept: metadataOnly, ...limits });
const list = (query: Record<string, string | number>) =>
  client.json({ path: apiPaths.pods, accept: metadataListOnly, query, ...limits });
const patch = (uid: string, value: string) =>
  client.json({
    method: "PATCH",
    path: `${apiPaths.pod(web)}/status`,
    body: { metadata: { uid, annotations: { [networkStatusAnnotation]: value } } },
    ...limits,
  });

test("a pod is read, and its status patched with the UID as precondition", async () => {
  expect(podOf(await run(get))).toMatchObject({ ...web, uid: "u1" });
  expect(await run(() => patch("u2", "x"))).toContain("HTTP 409 Conflict");
  expect(server.networkStatus("default/web")).toBeUndefined();
  await run(() => patch("u1", "x"));
  expect(server.networkStatus("default/web")).toBe("x");
  const version = server.pod("default/web")?.metadata.resourceVersion;
  await run(() => patch("u1", "x"));
  expect(server.pod("default/web")?.metadata.resourceVersion).toBe(version);
  server.removePod("default/web");
  expect(await run(() => patch("u1", "y"))).toContain("HTTP 404 NotFound");
  expect(() => server.putPod({ ...web, uid: "u1" })).toThrow("used before");
});

describe("a PATCH with", () => {
  test.each([
    ["request lost", "no answer within 5000 ms", undefined],
    ["answer lost", "no answer within 5000 ms", "x"],
    ["refused", "ECONNREFUSED", undefined],
    ["broken", "hang up", "x"],
    ["conflict", "HTTP 409", undefined],
    ["too many requests", "HTTP 429", undefined],
    ["internal error", "HTTP 500", undefined],
    ["unavailable", "HTTP 503", undefined],
  ] as const)("the outcome %s", async (outcome, message, written) => {
    outcomes.push(outcome);
    expect(await run(() => patch("u1", "x"))).toContain(message);
    expect(server.networkStatus("default/web")).toBe(written);
  });
});

describe.each([
  ["of the text", false],
  ["that a webhook has changed", true],
])("a fourth write %s", (_, changesStatuses) => {
  test.each([
    ["answered", true],
    ["answer lost", !changesStatuses],
  ] as const)("with the outcome %s", async (outcome, isTooMany) => {
    server.changesStatuses = changesStatuses;
    for (let count = 1; count <= 4; count++) {
      expect(writtenTooOften).toEqual([]);
      outcomes.push(outcome);
      await run(() => patch("u1", "x"));
    }
    expect(writtenTooOften).toHaveLength(isTooMany ? 1 : 0);
  });
});

test.each([
  ["heard", "HTTP 429", 1],
  ["cut off", "hang up", 0],
])("a PATCH is too early after a 429 that was %s: %s", async (how, message, count) => {
  outcomes.push("too many requests");
  const refused = run(() => patch("u1", "x"));
  if (how === "cut off") schedule.at(999, () => server.stop());
  expect(await refused).toContain(message);
  if (server.isDown) server.start();
  await run(() => patch("u1", "x"));
  expect(tooEarly).toHaveLength(count);
});

test("an object does not change with what it was made from", () => {
  const annotations = { "plexus.dev/a": "1" };
  server.putPod({ namespace: "default", name: "b", annotations });
  annotations["plexus.dev/a"] = "2";
  expect(server.pod("default/b")?.metadata.annotations).toEqual({ "plexus.dev/a": "1" });
});

test("an old read shows an earlier state, one of a LIST none before the version asked for", async () => {
  const seen = new Set<unknown>();
  const from = `${server.versions.current}`;
  server.annotatePod("default/web", { "plexus.dev/a": "2" });
  for (let attempt = 0; attempt < 20; attempt++) {
    outcomes.push("old", "old", "old");
    const any = await run(() => list({ resourceVersion: "0" }));
    seen.add(JSON.stringify(any));
    expect(await run(() => list({ resourceVersion: "" }))).toMatchObject({
      items: [{ metadata: { annotations: { "plexus.dev/a": "2" } } }],
    });
    expect(await run(() => list({ resourceVersion: from }))).toMatchObject({ items: [{}] });
  }
  // No pod, the first, and the second version.
  expect(seen.size).toBe(3);
});

test("pages are of one version, and expire by a compaction", async () => {
  server.putPod({ namespace: "default", name: "b" });
  const first = await run(() => list({ resourceVersion: "", limit: 1 }));
  server.removePod("default/b");
  const { metadata } = first as { metadata: { continue: string } };
  const next = (): Promise<unknown> => list({ continue: metadata.continue, limit: 1 });
  expect(await run(next)).toMatchObject({ items: [{ metadata: { name: "b" } }] });
  server.compact();
  expect(await run(next)).toContain("HTTP 410 Expired");
});

/** Watches from a version on; returns the events and how the watch ended. */
async function watched(from: number, forUs: number): Promise<string[]> {
  const seen: string[] = [];
  const query = { resourceVersion: `${from}`, timeoutSeconds: 300 };
  const request = { path: apiPaths.pods, query, ...limits };
  const end = await run(async () => {
    for await (const line of client.lines(request, { idleMs: 90_000 })) {
      const { type, object } = parseWatchEvent(line, "pods");
      seen.push(type === "BOOKMARK" ? type : `${type} ${podOf(object).name}`);
    }
    return "ended";
  }, forUs);
  return [...seen, ...(end === undefined ? [] : [String(end)])];
}

describe("a watch", () => {
  test("delivers earlier and later changes, bookmarks, and ends by its timeout", async () => {
    const from = server.versions.current;
    server.putPod({ namespace: "default", name: "b" });
    schedule.at(2 * second, () => server.removePod("default/b"));
    const bookmarks = Array.from({ length: 4 }, () => "BOOKMARK");
    const all = ["ADDED b", "DELETED b", ...bookmarks, "ended"];
    expect(await watched(from, 400 * second)).toEqual(all);
  });

  test.each([
    ["ends", ["ended"]],
    ["expires", [expect.stringContaining("watch pods: HTTP 410 Expired")]],
    ["silent", [expect.stringContaining("nothing received for 90000 ms")]],
  ] as const)("with the fault %s", async (fault, seen) => {
    watchFaults.push(fault);
    expect(await watched(server.versions.current - 1, 400 * second)).toEqual(seen);
  });

  test("breaks with the server, and is not begun again from a forgotten version", async () => {
    const from = server.versions.current;
    schedule.at(2 * second, () => server.putPod({ namespace: "default", name: "b" }));
    schedule.at(3 * second, () => server.restart());
    expect(await watched(from, 400 * second)).toEqual([
      "ADDED b",
      expect.stringContaining("GET /api/v1/pods: aborted"),
    ]);
    expect(await watched(from, second)).toEqual([expect.stringContaining("HTTP 410 Expired")]);
    server.stop();
    expect(await watched(from, second)).toEqual([expect.stringContaining("ECONNREFUSED")]);
  });

  test("that has not delivered what a compaction removes, expires", async () => {
    watchFaults.push(5 * second);
    schedule.at(2 * second, () => server.compact());
    const seen = await watched(server.versions.current - 1, 400 * second);
    expect(seen).toEqual([expect.stringContaining("HTTP 410 Expired")]);
  });

  test("of a killed process is forgotten", async () => {
    await watched(server.versions.current, second);
    expect(server.collection("pods").streams.size).toBe(1);
    schedule.kill(plexusd);
    expect(server.collection("pods").streams.size).toBe(0);
  });
});

test("a restart breaks the requests that were not answered, written or not", async () => {
  const seen = new Set<unknown>();
  for (let attempt = 0; attempt < 20; attempt++) {
    schedule.at(500, () => server.restart());
    const result = await run(() => patch("u1", `${attempt}`));
    expect(server.networkStatus("default/web")).toBe(`${attempt}`);
    seen.add(typeof result === "string" ? result : "answered");
  }
  const broken = "PATCH /api/v1/namespaces/default/pods/web/status: socket hang up";
  expect(seen).toEqual(new Set(["answered", broken]));
});

test("an aborted request rejects at once, although the server processes it", async () => {
  const abort = new AbortController();
  schedule.at(1, () => abort.abort(new Error("enough")), plexusd);
  const path = `${apiPaths.events("default")}`;
  const post = () =>
    client.json({ method: "POST", path, body: {}, signal: abort.signal, ...limits });
  expect(await run(post)).toContain("enough");
  await run(get);
  expect(server.events).toBe(1);
});

test("serves the product's watch cache and status publisher", async () => {
  const logger = new FakeLogger();
  const real = client as unknown as RealApiClient;
  const target = { client: real, path: apiPaths.pods, resource: "pods", logger, decode: podOf };
  const accept = { list: metadataListOnly, watch: metadataOnly };
  const pods = new WatchCache({ ...target, accept });
  const publisher = new ApiStatusPublisher({ client: real, logger, waitMs: 1000 });
  schedule.at(2 * second, () => server.putPod({ namespace: "default", name: "b" }));
  schedule.at(4 * second, () => server.removePod("default/web"));
  await run(() => pods.run(), second);
  expect(pods.get("default/web")).toMatchObject({ uid: "u1" });
  publisher.follow(async () => "[]");
  const pod = { ...web, uid: "u1", annotations: {} };
  expect(await run(() => publisher.shown(pod, new AbortController().signal))).toBeUndefined();
  expect(server.networkStatus("default/web")).toBe("[]");
  await run(() => new Promise(() => undefined), 5 * second);
  expect([...pods.values()].map(({ name }) => name)).toEqual(["b"]);
});
