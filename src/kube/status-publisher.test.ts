import { expect, onTestFinished, vi } from "vitest";
import type { Pod, StatusFailure, StatusPublisher } from "#engine/ports/cluster.ts";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { ApiError } from "#kube/api/api-error.ts";
import type { ApiClient } from "#kube/api/client.ts";
import { isJsonObject } from "#lib/json.ts";
import { eventually } from "#lib/testing/eventually.ts";
import { mirrorAnnotation } from "#npwg/object-meta.ts";
import { networkStatusAnnotation as key } from "#npwg/selection/selection.ts";
import type { StatusWriteResult } from "./metric-labels.ts";
import { type WatchedPod, watchedPodOf } from "./objects.ts";
import { ApiStatusPublisher } from "./status-publisher.ts";
import type { FakeApiServer } from "./testing/fake-api-server.ts";
import { kubeTest as test } from "./testing/kube-test.ts";
import { podObject } from "./testing/objects.ts";
import { isStatusPatch } from "./testing/requests.ts";
import { type WriteDelays, WriteTimes } from "./write-times.ts";

const pod: Pod = {
  ...{ namespace: "default", name: "web", uid: "uid-of-web" },
  ...{ annotations: {} },
};
const podOf = (name: string, namespace = "default"): Pod => ({
  ...{ ...pod, namespace, name, uid: `uid-of-${name}` },
});
const { signal } = new AbortController();
const quick: WriteDelays = {
  written: { initialMs: 10, maxMs: 20 },
  retried: { initialMs: 10, maxMs: 20 },
  rejected: { initialMs: 60_000, maxMs: 60_000 },
};

interface LabOptions {
  readonly waitMs?: number;
  readonly requestTimeoutMs?: number;
  readonly delays?: Partial<WriteDelays>;
  readonly isWatched?: boolean;
}

/** A publisher for pods whose records want `text`. */
class Lab implements AsyncDisposable {
  readonly results: StatusWriteResult[] = [];
  readonly logger = new FakeLogger();
  readonly publisher: ApiStatusPublisher;
  /** What the watch has delivered. */
  readonly watched = new Map<string, WatchedPod>();
  readonly #api: FakeApiServer;
  text: string | undefined = "[]";

  constructor(api: FakeApiServer, client: ApiClient, options: LabOptions = {}) {
    const { waitMs = 2000, requestTimeoutMs = 1000, delays = {}, isWatched } = options;
    this.#api = api;
    this.publisher = new ApiStatusPublisher({
      ...{ client, logger: this.logger, waitMs, requestTimeoutMs },
      delays: { ...quick, ...delays },
      metrics: { statusWrite: (result) => this.results.push(result) },
      ...(isWatched === true && { pods: this.watched }),
    });
    this.publisher.follow(async () => this.text);
  }

  /** The watch delivers the pod as the API server has it now. */
  deliver(name = "default/web"): void {
    const object = this.#api.objects("pods").get(name);
    const found = object && watchedPodOf(object);
    if (found === undefined) this.watched.delete(name);
    else this.watched.set(name, found);
    this.publisher.podDelivered(name, found);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.publisher.stop(50);
  }
}

/** A lab whose API server has the pod. */
function webLab(api: FakeApiServer, client: ApiClient, options?: LabOptions): Lab {
  api.put("pods", podObject("web"));
  return new Lab(api, client, options);
}

function annotationsOf(api: FakeApiServer, name = "default/web"): unknown {
  const metadata = api.objects("pods").get(name)?.metadata;
  return isJsonObject(metadata) ? metadata.annotations : undefined;
}

function annotate(api: FakeApiServer, text: string, uid?: string): void {
  api.put("pods", podObject("web", { annotations: { [key]: text }, ...(uid && { uid }) }));
}

const patches = (api: FakeApiServer) => api.seen.filter(isStatusPatch);
const shown = (lab: Lab, of = pod): ReturnType<StatusPublisher["shown"]> =>
  lab.publisher.shown(of, signal);

test("shown() sends one merge PATCH with the UID, and no read [D-34]", async ({ api, client }) => {
  api.put("pods", podObject("web", { annotations: { theirs: "kept" } }));
  await using lab = new Lab(api, client);
  expect(await shown(lab)).toBeUndefined();
  expect(api.seen).toHaveLength(1);
  expect(api.seen[0]).toMatchObject({
    method: "PATCH",
    path: "/api/v1/namespaces/default/pods/web/status",
    body: { metadata: { uid: "uid-of-web", annotations: { [key]: "[]" } } },
  });
  expect(api.seen[0]?.headers["content-type"]).toBe("application/merge-patch+json");
  expect(annotationsOf(api)).toEqual({ theirs: "kept", [key]: "[]" });
  expect(await shown(lab)).toBeUndefined();
  expect(lab.results).toEqual(["written"]);
});

test("shown() waits up to a limit, and says why; the write is retried", async ({ api, client }) => {
  api.script({ when: isStatusPatch, answer: "hang" });
  await using lab = webLab(api, client, { waitMs: 400, requestTimeoutMs: 600 });
  const late: StatusFailure = { message: "no answer within 400 ms", isRejected: false };
  expect(await shown(lab)).toEqual(late);
  // No ADD waits again before a write succeeds.
  expect(await shown(lab, podOf("other"))).toEqual({ ...late, message: expect.any(String) });
  await eventually(() => expect(lab.results).toContain("written"));
  expect(annotationsOf(api)).toEqual({ [key]: "[]" });
  api.put("pods", podObject("db"));
  expect(await shown(lab, podOf("db"))).toBeUndefined();
});

test.for([500, 503, 429, 401, 409, "reset"] as const)(
  "a write is retried after %s",
  async (answer, { api, client }) => {
    api.script({ when: isStatusPatch, answer });
    await using lab = webLab(api, client);
    expect(await shown(lab)).toBeUndefined();
    expect(annotationsOf(api)).toEqual({ [key]: "[]" });
    expect(lab.results.filter((result) => result === "written")).toHaveLength(1);
    expect(lab.publisher.failures().size).toBe(0);
  },
);

test("after a second failure, no ADD waits for the namespace's writes", async ({ api, client }) => {
  const names = ["web", "db"];
  for (const name of names) api.put("pods", podObject(name));
  api.put("pods", podObject("there", { namespace: "others" }));
  const isOfDefault = (path: string): boolean => path.includes("/namespaces/default/");
  const when: Parameters<FakeApiServer["script"]>[0]["when"] = (request) =>
    isStatusPatch(request) && isOfDefault(request.path);
  api.script({ when, answer: 500, times: 4 });
  await using lab = new Lab(api, client, { waitMs: 20_000 });
  expect(await shown(lab)).toMatchObject({ isRejected: false });
  expect(await shown(lab, podOf("db"))).toMatchObject({ isRejected: false });
  expect(await shown(lab, podOf("there", "others"))).toBeUndefined();
  await eventually(() => expect(annotationsOf(api, "default/db")).toEqual({ [key]: "[]" }));
});

test.for([400, 403, 413, 422] as const)(
  "a write that is rejected with %i is repeated seldom, and no ADD waits for it",
  async (answer, { api, client }) => {
    api.script({ when: isStatusPatch, answer });
    await using lab = webLab(api, client, { waitMs: 20_000 });
    const rejected = await shown(lab);
    expect(rejected).toMatchObject({ isRejected: true });
    expect(rejected?.message).toContain(`HTTP ${answer} Scripted: fake failure`);
    expect(lab.publisher.failures()).toEqual(new Map([["default/web", rejected]]));
    expect(await shown(lab)).toEqual(rejected);
    expect(lab.results).toEqual(["rejected"]);
    lab.text = "[1]";
    expect(await shown(lab)).toBeUndefined();
    expect(lab.publisher.failures().size).toBe(0);
  },
);

test("what the role or a policy rejects is tried again within ten minutes", () => {
  const times = new WriteTimes();
  const error = new ApiError("forbidden", { status: 403 });
  for (let n = 0; n < 20; n++) expect(times.note("[]", error)).toBe("rejected");
  expect(times.waitMs("[]")).toBeLessThanOrEqual(600_000);
  expect(times.waitMs("[]")).toBeGreaterThan(200_000);
});

test.for([
  ["asks for more time than an ADD has", 429, { "retry-after": "60" }],
  ["rejects the write of this pod for as long as an ADD waits", 409, {}],
] as const)("no ADD waits if the API server %s", async ([, answer, headers], { api, client }) => {
  for (const name of ["web", "db"]) api.put("pods", podObject(name));
  const isOfWeb = (path: string): boolean => path.includes("/web/");
  const when: Parameters<FakeApiServer["script"]>[0]["when"] = (request) =>
    isStatusPatch(request) && isOfWeb(request.path);
  api.script({ when, answer, headers, times: 1000 });
  const retried = { initialMs: 1000, maxMs: 60_000 };
  await using lab = new Lab(api, client, { waitMs: 4000, delays: { retried } });
  const startedAt = performance.now();
  expect((await shown(lab))?.message).toContain(`HTTP ${answer}`);
  expect(performance.now() - startedAt).toBeLessThan(3900);
  api.script({ when: isStatusPatch, answer: 503 });
  expect(await shown(lab, podOf("db"))).toBeUndefined();
});

test("after a token was rejected twice, no ADD waits in any namespace", async ({ api, client }) => {
  api.put("pods", podObject("there", { namespace: "others" }));
  api.script({ when: isStatusPatch, answer: 401, times: 1000 });
  await using lab = webLab(api, client, { waitMs: 20_000 });
  expect(await shown(lab)).toMatchObject({ isRejected: false });
  const message = "the API server does not answer";
  expect(await shown(lab, podOf("there", "others"))).toMatchObject({ message });
});

test("an ADD whose record cannot be read does not wait", async ({ api, client }) => {
  await using lab = webLab(api, client, { waitMs: 20_000 });
  lab.publisher.follow(() => Promise.reject(new Error("input/output error")));
  const failure = { message: "input/output error", isRejected: false };
  expect(await shown(lab)).toEqual(failure);
  lab.publisher.changed(pod);
  await eventually(() => expect(lab.publisher.pending).toBe(0));
  lab.publisher.follow(async () => "[]");
  expect(await shown(lab)).toBeUndefined();
});

test("an earlier sandbox's DEL tells no ADD that its status is shown", async ({ api, client }) => {
  await using lab = webLab(api, client);
  expect(await shown(lab)).toBeUndefined();
  const slow = Promise.withResolvers<void>();
  api.script({ when: isStatusPatch, answer: slow.promise });
  const publisher: StatusPublisher = lab.publisher;
  const wanted = Promise.withResolvers<undefined>();
  publisher.follow(() => wanted.promise);
  const deleted = publisher.detached(pod);
  publisher.follow(async () => "[1]");
  let isTold = false;
  const added = shown(lab).finally(() => {
    isTold = true;
  });
  await eventually(() => expect(patches(api)).toHaveLength(2));
  wanted.resolve(undefined);
  await deleted;
  await new Promise(setImmediate);
  expect(isTold).toBe(false);
  slow.resolve();
  expect(await added).toBeUndefined();
  expect(annotationsOf(api)).toEqual({ [key]: "[1]" });
});

test("an ADD that waits while its pod is compared waits for its text", async ({ api, client }) => {
  await using lab = webLab(api, client);
  const earlier = Promise.withResolvers<undefined>();
  lab.publisher.follow(() => earlier.promise);
  lab.publisher.changed(pod);
  lab.publisher.follow(async () => "[1]");
  const added = shown(lab);
  earlier.resolve(undefined);
  expect(await added).toBeUndefined();
  expect(annotationsOf(api)).toEqual({ [key]: "[1]" });
});

test("of several waiting ADDs, the records say which is shown", async ({ api, client }) => {
  await using lab = webLab(api, client);
  const asked: unknown[] = [];
  lab.publisher.follow(async (_, own) => {
    asked.push(own?.containerId);
    return own === undefined ? "[newest]" : `[${own.containerId}]`;
  });
  const slow = Promise.withResolvers<void>();
  api.script({ when: isStatusPatch, answer: slow.promise });
  const ifName = "eth0";
  const newer = lab.publisher.shown(pod, signal, { containerId: "c2", ifName });
  await eventually(() => expect(patches(api)).toHaveLength(1));
  const older = lab.publisher.shown(pod, signal, { containerId: "c1", ifName });
  slow.resolve();
  expect(await Promise.all([newer, older])).toEqual([undefined, undefined]);
  expect(annotationsOf(api)).toEqual({ [key]: "[newest]" });
  expect(asked).not.toContain("c1");
});

test("a status survives the 404 of a proxy", async ({ api, client }) => {
  api.script({ when: isStatusPatch, answer: 404, body: "<html>no such page</html>", times: 3 });
  await using lab = webLab(api, client, { isWatched: true });
  lab.deliver();
  await eventually(() => expect(annotationsOf(api)).toEqual({ [key]: "[]" }));
});

test("a pod that the watch takes away is not written again, nor one that it has not delivered", async ({
  api,
  client,
}) => {
  await using lab = new Lab(api, client, { isWatched: true });
  lab.publisher.changed(pod);
  await eventually(() => expect(lab.results).toEqual(["retried"]));
  await eventually(() => expect(lab.publisher.pending).toBe(0));
  api.put("pods", podObject("web"));
  lab.deliver();
  await eventually(() => expect(annotationsOf(api)).toEqual({ [key]: "[]" }));
  api.script({ when: isStatusPatch, answer: 503, times: 1000 });
  lab.text = "[1]";
  lab.publisher.changed(pod);
  await eventually(() => expect(lab.results).toContain("retried"));
  api.objects("pods").delete("default/web");
  lab.deliver();
  expect(lab.publisher.pending).toBe(0);
});

test("what another component writes last is waited for, and replaced", async ({ api, client }) => {
  annotate(api, "[]");
  await using lab = new Lab(api, client, { isWatched: true });
  lab.deliver();
  await lab.publisher.compareAll();
  expect(patches(api)).toHaveLength(0);
  for (const text of ["[1]", "[2]", "[3]"]) {
    annotate(api, text);
    lab.deliver();
  }
  await eventually(() => expect(annotationsOf(api)).toEqual({ [key]: "[]" }));
  expect(patches(api)).toHaveLength(1);
});

test("a watch that is behind the answer of a write shows nothing", async ({ api, client }) => {
  annotate(api, "[0]");
  await using lab = new Lab(api, client, { isWatched: true });
  lab.deliver();
  expect(await shown(lab)).toBeUndefined();
  await lab.publisher.compareAll();
  expect(patches(api)).toHaveLength(1);
  lab.deliver();
  await lab.publisher.compareAll();
  expect(patches(api)).toHaveLength(1);
});

test("what an API server that was set back shows is compared after a minute", async ({
  api,
  client,
}) => {
  annotate(api, "[0]");
  await using lab = new Lab(api, client, { isWatched: true });
  lab.deliver();
  expect(await shown(lab)).toBeUndefined();
  api.restore();
  annotate(api, "[0]");
  lab.deliver();
  await lab.publisher.compareAll();
  expect(patches(api)).toHaveLength(1);
  const now = performance.now.bind(performance);
  const later = vi.spyOn(performance, "now").mockImplementation(() => now() + 60_001);
  onTestFinished(() => later.mockRestore());
  await lab.publisher.compareAll();
  await eventually(() => expect(patches(api)).toHaveLength(2));
});

test("what a webhook makes of a status counts as the status", async ({ api, client }) => {
  await using lab = webLab(api, client, { isWatched: true });
  const { metadata } = podObject("web", { annotations: { [key]: "[ ]" } });
  const changed = { metadata: { ...(metadata as object), resourceVersion: "1000" } };
  api.script({ when: isStatusPatch, answer: 200, body: changed });
  expect(await shown(lab)).toBeUndefined();
  annotate(api, "[ ]");
  lab.deliver();
  await lab.publisher.compareAll();
  expect(patches(api)).toHaveLength(1);
});

test("an ADD does not wait if another component replaced its text", async ({ api, client }) => {
  const delays = { written: { initialMs: 60_000, maxMs: 60_000 } };
  await using lab = webLab(api, client, { isWatched: true, delays });
  expect(await shown(lab)).toBeUndefined();
  annotate(api, "theirs");
  lab.deliver();
  expect(await shown(lab)).toBeUndefined();
  expect(annotationsOf(api)).toEqual({ [key]: "[]" });
});

test("two writers that insist write ever more seldom", async ({ api, client }) => {
  annotate(api, "[0]");
  const written = { initialMs: 60_000, maxMs: 60_000, jitter: 0 };
  await using lab = new Lab(api, client, { isWatched: true, delays: { written } });
  lab.deliver();
  for (let n = 1; n < 4; n++) {
    await lab.publisher.compareAll();
    annotate(api, `[${n}]`);
    lab.deliver();
  }
  expect(patches(api)).toHaveLength(1);
  lab.text = "[new]";
  await lab.publisher.compareAll();
  expect(annotationsOf(api)).toEqual({ [key]: "[new]" });
});

test("a pod's requests follow each other; the last has what is wanted", async ({ api, client }) => {
  const slow = Promise.withResolvers<void>();
  api.script({ when: isStatusPatch, answer: slow.promise });
  await using lab = webLab(api, client);
  const first = shown(lab);
  await eventually(() => expect(patches(api)).toHaveLength(1));
  lab.text = "[1]";
  lab.publisher.changed(pod);
  lab.text = "[2]";
  const last = shown(lab);
  slow.resolve();
  expect(await Promise.all([first, last])).toEqual([undefined, undefined]);
  expect(annotationsOf(api)).toEqual({ [key]: "[2]" });
  expect(patches(api)).toHaveLength(2);
});

test("an older write that arrives late is replaced when it is watched", async ({ api, client }) => {
  const late = Promise.withResolvers<void>();
  api.script({ when: isStatusPatch, answer: late.promise });
  await using lab = webLab(api, client, { isWatched: true, waitMs: 20, requestTimeoutMs: 50 });
  lab.deliver();
  await shown(lab);
  await eventually(() => expect(patches(api)).not.toHaveLength(0));
  lab.text = "[newer]";
  lab.publisher.changed(pod);
  await eventually(() => expect(annotationsOf(api)).toEqual({ [key]: "[newer]" }));
  late.resolve();
  await eventually(() => expect(annotationsOf(api)).toEqual({ [key]: "[]" }));
  lab.deliver();
  await eventually(() => expect(annotationsOf(api)).toEqual({ [key]: "[newer]" }));
});

test("a static pod's status goes to its mirror, once there is one", async ({ api, client }) => {
  await using lab = new Lab(api, client, { isWatched: true });
  const annotations = { "kubernetes.io/config.source": "file" };
  const described = { ...pod, uid: "file-hash", annotations };
  expect(await shown(lab, described)).toBeUndefined();
  expect(patches(api)).toHaveLength(0);
  api.put("pods", podObject("web", { annotations: { [mirrorAnnotation]: "file-hash" } }));
  lab.deliver();
  expect(await shown(lab, described)).toBeUndefined();
  expect(annotationsOf(api)).toMatchObject({ [key]: "[]" });
});

test("nothing is written for a detached pod, or one of the same name", async ({ api, client }) => {
  api.put("pods", podObject("web", { uid: "its-successor" }));
  await using lab = new Lab(api, client, { isWatched: true });
  lab.deliver();
  lab.publisher.changed(pod);
  await eventually(() => expect(lab.results).toEqual(["retried"]));
  lab.text = undefined;
  await lab.publisher.detached();
  await eventually(() => expect(lab.publisher.pending).toBe(0));
  expect(annotationsOf(api)).toEqual({});
});

test("ADDs that wait come before what waits in the background, and leave connections for reads", async ({
  api,
  client,
}) => {
  const names = Array.from({ length: 40 }, (_, i) => `pod-${i}`);
  for (const name of ["web", ...names]) api.put("pods", podObject(name));
  api.script({ when: isStatusPatch, times: Number.POSITIVE_INFINITY, answer: "hang" });
  await using lab = new Lab(api, client, { waitMs: 100, requestTimeoutMs: 60_000 });
  for (const name of names) lab.publisher.changed(podOf(name));
  await eventually(() => expect(patches(api)).not.toHaveLength(0));
  const inBackground = patches(api).length;
  void shown(lab);
  await eventually(() => expect(patches(api).at(-1)?.path).toContain("web"));
  await Promise.all(names.map((name) => shown(lab, podOf(name))));
  const path = "/api/v1/namespaces/default/pods/web";
  expect(await client.json({ path, timeoutMs: 2000 })).toHaveProperty("spec");
  expect(patches(api).length).toBeGreaterThan(inBackground + 1);
  expect(patches(api).length).toBeLessThan(16);
});

test("a background write that becomes awaited does not wait there", async ({ api, client }) => {
  for (const name of ["web", "other"]) api.put("pods", podObject(name));
  api.script({ when: (r) => isStatusPatch(r) && r.path.includes("other"), answer: "hang" });
  await using lab = new Lab(api, client, { requestTimeoutMs: 60_000 });
  lab.publisher.changed(podOf("other"));
  await eventually(() => expect(patches(api)).toHaveLength(1));
  lab.publisher.changed(pod);
  expect(await shown(lab)).toBeUndefined();
});

test("stop() sends pending writes without backoff, and logs it once", async ({ api, client }) => {
  api.script({ when: isStatusPatch, answer: 503, times: 1000 });
  const retried = { initialMs: 60_000, maxMs: 60_000 };
  await using lab = webLab(api, client, { delays: { retried } });
  lab.publisher.changed(pod);
  await eventually(() => expect(lab.results).toEqual(["retried"]));
  await lab.publisher.stop(1000);
  expect(patches(api).length).toBeGreaterThan(1);
  expect(patches(api).length).toBeLessThan(9);
  expect(lab.logger.at("warn")).toEqual(["status annotation not written"]);
});

test.for([
  ["waits for a Retry-After that ends in time", "0.1", ["retried", "written"]],
  ["sends nothing more before a Retry-After that ends later", "60", ["retried"]],
] as const)("stop() %s", async ([, seconds, results], { api, client }) => {
  api.script({ when: isStatusPatch, answer: 429, headers: { "retry-after": seconds } });
  await using lab = webLab(api, client);
  const startedAt = performance.now();
  lab.publisher.changed(pod);
  await eventually(() => expect(lab.results).toEqual(["retried"]));
  await lab.publisher.stop(30_000);
  expect(lab.results).toEqual(results);
  expect(performance.now() - startedAt).toBeLessThan(10_000);
});

test("stop() drops writes that do not finish in its grace period", async ({ api, client }) => {
  api.script({ when: isStatusPatch, answer: "hang", times: 100 });
  await using lab = webLab(api, client, { requestTimeoutMs: 60_000 });
  const unfinished = shown(lab);
  await eventually(() => expect(patches(api)).toHaveLength(1));
  await lab.publisher.stop(50);
  expect(lab.publisher.pending).toBe(0);
  expect(await unfinished).toMatchObject({ isRejected: false });
});
