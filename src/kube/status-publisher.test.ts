import { expect, vi } from "vitest";
import type { Pod } from "#engine/ports/cluster.ts";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import type { ApiClient } from "#kube/api/client.ts";
import type { BackoffOptions } from "#lib/concurrency/backoff.ts";
import { isJsonObject } from "#lib/json.ts";
import { eventually } from "#lib/testing/eventually.ts";
import type { StatusWriteResult } from "./metric-labels.ts";
import { ApiStatusPublisher } from "./status-publisher.ts";
import type { FakeApiServer } from "./testing/fake-api-server.ts";
import { kubeTest as test } from "./testing/kube-test.ts";
import { podObject } from "./testing/objects.ts";
import { isGet, isStatusPatch } from "./testing/requests.ts";

const key = "k8s.v1.cni.cncf.io/network-status";
const pod: Pod = {
  namespace: "default",
  name: "web",
  uid: "uid-of-web",
  annotations: {},
  isStatic: false,
};

function start(
  client: ApiClient,
  options: {
    waitMs?: number;
    requestTimeoutMs?: number;
    rejectedMs?: number;
    lateMs?: number;
    backoff?: BackoffOptions;
  } = {},
) {
  const results: StatusWriteResult[] = [];
  const publisher = new ApiStatusPublisher({
    client,
    logger: new FakeLogger(),
    waitMs: options.waitMs ?? 2000,
    requestTimeoutMs: options.requestTimeoutMs ?? 1000,
    backoff: options.backoff ?? { initialMs: 10, maxMs: 20 },
    ...(options.lateMs !== undefined && { lateMs: options.lateMs }),
    rejections: { initialMs: options.rejectedMs ?? 10, maxMs: 60_000 },
    metrics: { statusWrite: (result) => results.push(result) },
  });
  return {
    publisher,
    results,
    [Symbol.asyncDispose]: async (): Promise<void> => {
      await publisher.stop(50);
    },
  };
}

function annotationsOf(api: FakeApiServer, name = "default/web"): unknown {
  const metadata = api.objects("pods").get(name)?.metadata;
  return isJsonObject(metadata) ? metadata.annotations : undefined;
}

const patches = (api: FakeApiServer) => api.seen.filter(isStatusPatch);

test("publish() sends one merge PATCH with the UID, and no read [D-34]", async ({
  api,
  client,
}) => {
  api.put("pods", podObject("web", { annotations: { theirs: "kept" } }));
  await using started = start(client);
  expect(await started.publisher.publish(pod, { [key]: "[]" })).toBe("settled");
  expect(api.seen).toHaveLength(1);
  expect(api.seen[0]).toMatchObject({
    method: "PATCH",
    path: "/api/v1/namespaces/default/pods/web/status",
    body: { metadata: { uid: "uid-of-web", annotations: { [key]: "[]" } } },
  });
  expect(api.seen[0]?.headers["content-type"]).toBe("application/merge-patch+json");
  expect(annotationsOf(api)).toEqual({ theirs: "kept", [key]: "[]" });
  await started.publisher.publish(pod, { theirs: null });
  expect(annotationsOf(api)).toEqual({ [key]: "[]" });
  expect(started.results).toEqual(["written", "written"]);
});

test("publish() waits up to its limit, then retries in background", async ({ api, client }) => {
  api.put("pods", podObject("web"));
  api.script({ when: isStatusPatch, answer: "hang" });
  await using started = start(client, { waitMs: 40, requestTimeoutMs: 300 });
  expect(await started.publisher.publish(pod, { [key]: "[]" })).toBe("pending");
  expect([started.publisher.pending, started.results]).toEqual([1, []]);
  await eventually(() => expect(annotationsOf(api)).toEqual({ [key]: "[]" }));
  await eventually(() => expect(started.publisher.pending).toBe(0));
  expect(started.results).toEqual(["retried", "written"]);
});

test.for([500, 503, 429, 403, "reset"] as const)(
  "publish() retries after %s",
  async (answer, { api, client }) => {
    api.put("pods", podObject("web"));
    api.script({ when: isStatusPatch, answer, times: 2 });
    await using started = start(client);
    await started.publisher.publish(pod, { [key]: "[]" });
    expect(annotationsOf(api)).toEqual({ [key]: "[]" });
    expect(started.results).toEqual(["retried", "retried", "written"]);
  },
);

test("publish() retries after a proxy's own 404, which says nothing about the pod", async ({
  api,
  client,
}) => {
  api.put("pods", podObject("web"));
  api.script({ when: isStatusPatch, answer: 404, body: "<html>no such site</html>" });
  await using started = start(client);
  await started.publisher.publish(pod, { [key]: "[]" });
  expect(annotationsOf(api)).toEqual({ [key]: "[]" });
  expect(started.results).toEqual(["retried", "written"]);
});

test.for([
  ["gives up when the pod is gone", undefined, undefined, ["gone"]],
  ["never writes on another pod of the same name", "its-successor", undefined, ["gone"]],
  ["retries after a conflict that is not about the UID", pod.uid, 409, ["retried", "written"]],
] as const)("publish() %s", async ([, uid, answer, results], { api, client }) => {
  if (uid !== undefined) api.put("pods", podObject("web", { uid }));
  if (answer !== undefined) api.script({ when: isStatusPatch, answer });
  await using started = start(client);
  await started.publisher.publish(pod, { [key]: "[]" });
  expect(started.results).toEqual(results);
  // A conflict is clarified by one read.
  expect(api.seen.filter(isGet("web"))).toHaveLength(uid === undefined ? 0 : 1);
  const isWritten = started.results.includes("written");
  expect(annotationsOf(api)).toEqual(uid && (isWritten ? { [key]: "[]" } : {}));
});

test("publish() does not send again what is being sent, and the caller waits for that", async ({
  api,
  client,
}) => {
  api.put("pods", podObject("web"));
  await using started = start(client);
  const slow = Promise.withResolvers<void>();
  api.script({ when: isStatusPatch, answer: slow.promise });
  const first = started.publisher.publish(pod, { [key]: "[]" });
  await eventually(() => expect(patches(api)).toHaveLength(1));
  const again = started.publisher.publish(pod, { [key]: "[]" }, { waitsForEnd: true });
  slow.resolve();
  expect(await Promise.all([first, again])).toEqual(["settled", "settled"]);
  expect(patches(api)).toHaveLength(1);
});

test("publish() replaces an older value that is being retried", async ({ api, client }) => {
  api.put("pods", podObject("web"));
  api.script({ when: isStatusPatch, answer: 503, times: 3 });
  await using started = start(client, { waitMs: 5 });
  await started.publisher.publish(pod, { [key]: "old", "plexus.dev/other": "stays" });
  await started.publisher.publish(pod, { [key]: "new" });
  await eventually(() =>
    expect(annotationsOf(api)).toEqual({ [key]: "new", "plexus.dev/other": "stays" }),
  );
});

test("publish() sends one request at a time per pod, and serves other namespaces meanwhile", async ({
  api,
  client,
}) => {
  api.put("pods", podObject("web"));
  api.put("pods", podObject("db", { namespace: "others" }));
  api.script({ when: (r) => isStatusPatch(r) && r.path.includes("web"), answer: "hang" });
  await using started = start(client, { waitMs: 300, requestTimeoutMs: 400 });
  const waiting = [1, 2, 3].map((n) => started.publisher.publish(pod, { [key]: `${n}` }));
  const db = { ...pod, namespace: "others", name: "db", uid: "uid-of-db" };
  await started.publisher.publish(db, { [key]: "db" });
  expect(annotationsOf(api, "others/db")).toEqual({ [key]: "db" });
  expect(patches(api).filter((each) => each.path.includes("web"))).toHaveLength(1);
  await Promise.all(waiting);
  await eventually(() => expect(annotationsOf(api)).toEqual({ [key]: "3" }));
});

test("writes that hang leave connections for reads; withdraw() ends one that waits", async ({
  api,
  client,
}) => {
  api.put("pods", podObject("web"));
  const names = Array.from({ length: 40 }, (_, i) => `pod-${i}`);
  for (const name of names) api.put("pods", podObject(name));
  api.script({ when: isStatusPatch, times: Number.POSITIVE_INFINITY, answer: "hang" });
  await using started = start(client, { waitMs: 50, requestTimeoutMs: 60_000 });
  const podOf = (name: string): Pod => ({ ...pod, name, uid: `uid-of-${name}` });
  await Promise.all(names.map((name) => started.publisher.publish(podOf(name), { [key]: "[]" })));
  const path = "/api/v1/namespaces/default/pods/web";
  expect(await client.json({ path, timeoutMs: 2000 })).toHaveProperty("spec");
  const sent = patches(api).map((request) => request.path);
  expect(sent.length).toBeLessThan(16);
  const { pending } = started.publisher;
  await started.publisher.withdraw(podOf("pod-39"));
  await eventually(() => expect(started.publisher.pending).toBe(pending - 1));
});

test("a status replaces that of an earlier sandbox even if the API server applies that one late", async ({
  api,
  client,
}) => {
  api.put("pods", podObject("web"));
  const late = Promise.withResolvers<void>();
  api.script({ when: isStatusPatch, answer: late.promise });
  await using started = start(client);
  const older = started.publisher.publish(pod, { [key]: "older" }, { waitsForEnd: true });
  await eventually(() => expect(patches(api)).toHaveLength(1));
  await started.publisher.withdraw(pod);
  const newer = started.publisher.publish(pod, { [key]: "newer" }, { waitsForEnd: true });
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(patches(api)).toHaveLength(1);
  late.resolve();
  expect(await Promise.all([older, newer])).toEqual(["settled", "settled"]);
  expect(annotationsOf(api)).toEqual({ [key]: "newer" });
});

test("a status is written once more when an earlier write, which had no answer, may have come after it", async ({
  api,
  client,
}) => {
  api.put("pods", podObject("web"));
  const late = Promise.withResolvers<void>();
  api.script({ when: isStatusPatch, answer: late.promise });
  await using started = start(client, { waitMs: 20, requestTimeoutMs: 50, lateMs: 300 });
  await started.publisher.publish(pod, { [key]: "older" });
  expect(await started.publisher.publish(pod, { [key]: "newer" })).toBe("pending");
  await eventually(() => expect(annotationsOf(api)).toEqual({ [key]: "newer" }));
  late.resolve();
  await eventually(() => expect(annotationsOf(api)).toEqual({ [key]: "older" }));
  await eventually(() => expect(started.publisher.pending).toBe(0));
  expect(annotationsOf(api)).toEqual({ [key]: "newer" });
  expect(started.results).toEqual(["retried", "written", "written"]);
});

test("a status that is withdrawn before it is sent is not sent", async ({ api, client }) => {
  api.put("pods", podObject("web"));
  api.put("pods", podObject("db"));
  await using started = start(client, { waitMs: 1 });
  const db = { ...pod, name: "db", uid: "uid-of-db" };
  const web = started.publisher.publish(pod, { [key]: "[]" }, { waitsForEnd: true });
  const withdrawn = started.publisher.publish(db, { [key]: "[]" }, { waitsForEnd: true });
  await started.publisher.withdraw(db);
  expect(await Promise.all([web, withdrawn])).toEqual(["settled", "pending"]);
  expect([annotationsOf(api), annotationsOf(api, "default/db")]).toEqual([{ [key]: "[]" }, {}]);
});

test("withdraw() drops the pending write of a pod", async ({ api, client }) => {
  api.put("pods", podObject("web"));
  api.script({ when: isStatusPatch, answer: 503, times: 1000 });
  await using started = start(client, { waitMs: 5 });
  await started.publisher.publish(pod, { [key]: "[]" });
  await started.publisher.withdraw(pod, { unless: async () => true });
  expect(started.publisher.pending).toBe(1);
  await started.publisher.withdraw(pod, { unless: async () => false });
  await eventually(() => expect(started.publisher.pending).toBe(0));
  expect(started.results.at(-1)).toBe("dropped");
  const unless = vi.fn(async () => false);
  await started.publisher.withdraw(pod, { unless });
  expect(unless).not.toHaveBeenCalled();
});

test.for([400, 413, 422] as const)(
  "publish() keeps a value that the API server rejects with %i, and retries it",
  async (answer, { api, client }) => {
    api.put("pods", podObject("web"));
    api.script({ when: isStatusPatch, answer, times: 2 });
    await using started = start(client, { waitMs: 5 });
    expect(await started.publisher.publish(pod, { [key]: "[]" })).toBe("pending");
    await eventually(() => expect(started.results).toEqual(["invalid", "invalid", "written"]));
    expect(annotationsOf(api)).toEqual({ [key]: "[]" });
  },
);

test("publish() does not wait for the retry of a rejected value, which another value replaces at once", async ({
  api,
  client,
}) => {
  api.put("pods", podObject("web"));
  api.script({ when: isStatusPatch, answer: 422 });
  await using started = start(client, { waitMs: 20_000, rejectedMs: 60_000 });
  const { publisher } = started;
  expect(await publisher.publish(pod, { [key]: "[0]" })).toBe("pending");
  expect(await publisher.publish(pod, { [key]: "[0]" })).toBe("pending");
  expect(patches(api)).toHaveLength(1);
  expect(await publisher.publish(pod, { [key]: "[]" }, { waitsForEnd: true })).toBe("settled");
  expect(annotationsOf(api)).toEqual({ [key]: "[]" });
});

test("of three sandboxes of a pod the last one's status stays, even if the second one's is withdrawn while the first one's is on its way", async ({
  api,
  client,
}) => {
  api.put("pods", podObject("web"));
  const late = Promise.withResolvers<void>();
  api.script({ when: isStatusPatch, answer: late.promise });
  await using started = start(client);
  const publish = (value: string) =>
    started.publisher.publish(pod, { [key]: value }, { waitsForEnd: true });
  const first = publish("first");
  await eventually(() => expect(patches(api)).toHaveLength(1));
  await started.publisher.withdraw(pod);
  const second = publish("second");
  await started.publisher.withdraw(pod);
  expect(await second).toBe("pending");
  const third = publish("third");
  // The API server would answer a second request at once.
  await client.json({ path: "/api/v1/namespaces/default/pods/web", timeoutMs: 2000 });
  expect(patches(api)).toHaveLength(1);
  late.resolve();
  expect(await Promise.all([first, third])).toEqual(["settled", "settled"]);
  expect(annotationsOf(api)).toEqual({ [key]: "third" });
});

test("publish() asks before each attempt whether the status is still current", async ({
  api,
  client,
}) => {
  api.put("pods", podObject("web"));
  api.script({ when: isStatusPatch, answer: 503, times: 100 });
  await using started = start(client);
  const isCurrent = async (): Promise<boolean> => patches(api).length < 2;
  expect(await started.publisher.publish(pod, { [key]: "[]" }, { isCurrent })).toBe("pending");
  expect(started.results).toEqual(["retried", "retried", "dropped"]);
});

test("stop() sends pending writes without waiting for the backoff, a few times", async ({
  api,
  client,
}) => {
  api.put("pods", podObject("web"));
  api.script({ when: isStatusPatch, answer: 503, times: 1000 });
  await using started = start(client, { waitMs: 5, backoff: { initialMs: 60_000, maxMs: 60_000 } });
  await started.publisher.publish(pod, { [key]: "[]" });
  await eventually(() => expect(started.results).toEqual(["retried"]));
  await started.publisher.stop(1000);
  expect(patches(api).length).toBeGreaterThan(1);
  expect(patches(api).length).toBeLessThan(9);
});

test.for([
  ["waits for a Retry-After that ends in time", "0.1", ["retried", "written"]],
  ["sends nothing more before a Retry-After that ends later", "60", ["retried"]],
] as const)("stop() %s", async ([, seconds, results], { api, client }) => {
  api.put("pods", podObject("web"));
  api.script({ when: isStatusPatch, answer: 429, headers: { "retry-after": seconds } });
  await using started = start(client, { waitMs: 5 });
  const startedAt = performance.now();
  const write = started.publisher.publish(pod, { [key]: "[]" }, { waitsForEnd: true });
  await eventually(() => expect(started.results).toEqual(["retried"]));
  await started.publisher.stop(30_000);
  expect(await write).toBe(results.length === 2 ? "settled" : "pending");
  expect(started.results).toEqual(results);
  expect(performance.now() - startedAt).toBeLessThan(10_000);
});

test("stop() drops writes that do not finish in its grace period", async ({ api, client }) => {
  api.put("pods", podObject("web"));
  api.script({ when: isStatusPatch, answer: "hang", times: 100 });
  await using started = start(client, { waitMs: 10, requestTimeoutMs: 60_000 });
  await started.publisher.publish(pod, { [key]: "[]" });
  const unlimited = started.publisher.publish(pod, { [key]: "[1]" }, { waitsForEnd: true });
  await started.publisher.stop(50);
  expect(await unlimited).toBe("pending");
  expect(started.publisher.pending).toBe(0);
});
