import { expect, onTestFinished, vi } from "vitest";
import type { Pod } from "#engine/ports/cluster.ts";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import type { ApiClient } from "#kube/api/client.ts";
import type { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import { kubeTest as test } from "#kube/testing/kube-test.ts";
import type { SeenRequest } from "#kube/testing/requests.ts";
import { WritePace } from "#kube/write-pace.ts";
import type { JsonObject } from "#lib/json.ts";
import { eventually } from "#lib/testing/eventually.ts";
import { ApiEventRecorder, type EventRecorderOptions } from "./event-recorder.ts";

const pod: Pod = { namespace: "default", name: "web", uid: "u1", annotations: {} };
const added = {
  type: "Normal",
  reason: "AddedInterface",
  message: "Add eth0 [10.1.2.3/24] from default/net-a",
} as const;

function start(client: ApiClient, options: Partial<EventRecorderOptions> = {}) {
  const drops: string[] = [];
  const recorder = new ApiEventRecorder({
    client,
    logger: new FakeLogger(),
    nodeName: "node-1",
    retryMs: 10,
    metrics: { eventDropped: (reason) => drops.push(reason) },
    ...options,
  });
  return {
    recorder,
    drops,
    [Symbol.asyncDispose]: async (): Promise<void> => {
      await recorder.stop(50);
    },
  };
}

test("an event waits as long as a status for a busy API server", async ({ client }) => {
  const write = vi.spyOn(client, "write");
  await using started = start(client);
  started.recorder.record(pod, added);
  await eventually(() =>
    expect(write).toHaveBeenCalledWith(expect.objectContaining({ timeoutMs: 30_000 })),
  );
});

const stored = (api: FakeApiServer): JsonObject[] => [...api.objects("events").values()];
const posts = (request: SeenRequest): boolean => request.method === "POST";

test("events and statuses share a pace: a node begins with two writes", async ({ api, client }) => {
  const pace = new WritePace();
  const status = Promise.withResolvers<void>();
  const { signal } = new AbortController();
  const sent = ["a", "b"].map((namespace) => pace.run(namespace, () => status.promise, { signal }));
  await using started = start(client, { pace });
  started.recorder.record(pod, added);
  await new Promise(setImmediate);
  expect(api.seen).toEqual([]);
  status.resolve();
  await Promise.all(sent);
  await eventually(() => expect(stored(api)).toHaveLength(1));
});

test("record() creates a core/v1 event; a repetition raises its count", async ({ api, client }) => {
  await using started = start(client);
  started.recorder.record(pod, added);
  await eventually(() => expect(stored(api)).toHaveLength(1));
  expect(api.seen[0]?.path).toBe("/api/v1/namespaces/default/events");
  expect(stored(api)[0]).toMatchObject({
    metadata: { namespace: "default", name: expect.stringMatching(/^web\.[0-9a-f]+$/) },
    involvedObject: { kind: "Pod", namespace: "default", name: "web", uid: "u1" },
    ...added,
    source: { component: "plexus", host: "node-1" },
    count: 1,
    firstTimestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
  });
  started.recorder.record(pod, added);
  await eventually(() => expect(stored(api)[0]).toMatchObject({ count: 2 }));
  started.recorder.record(pod, { ...added, message: "something else" });
  await eventually(() => expect(stored(api)).toHaveLength(2));
  expect(api.seen.map((each) => each.method)).toEqual(["POST", "PATCH", "POST"]);
  // The events have expired on the server.
  api.objects("events").clear();
  started.recorder.record(pod, added);
  await eventually(() => expect(stored(api)).toMatchObject([{ count: 3 }]));
});

test("record() merges repetitions that are still queued", async ({ api, client }) => {
  await using started = start(client);
  for (let i = 0; i < 5; i++) started.recorder.record(pod, added);
  await eventually(() => expect(stored(api)[0]).toMatchObject({ count: 5 }));
  expect(stored(api)).toHaveLength(1);
  expect(api.seen.length).toBeLessThanOrEqual(2);
});

test.for([
  ["retries after 429 and 5xx", [429, 500], ["first", "next"], []],
  ["drops an event that is rejected, and sends the next one", [403], ["next"], ["failed"]],
] as const)("record() %s", async ([, answers, messages, drops], { api, client }) => {
  for (const answer of answers) api.script({ when: posts, answer });
  await using started = start(client);
  for (const message of ["first", "next"]) started.recorder.record(pod, { ...added, message });
  await eventually(() =>
    expect(stored(api)).toMatchObject(messages.map((message) => ({ message }))),
  );
  expect(started.drops).toEqual(drops);
});

test("record() limits the events of each pod [S-304]", async ({ api, client }) => {
  await using started = start(client);
  for (let i = 0; i < 28; i++) started.recorder.record(pod, { ...added, message: `m${i}` });
  started.recorder.record({ ...pod, uid: "u2", name: "db" }, added);
  await eventually(() => expect(stored(api)).toHaveLength(26));
  expect(started.drops).toEqual(["rate", "rate", "rate"]);
});

test("record() limits all events of the node and the queue", async ({ api, client }) => {
  let now = 100_000;
  vi.spyOn(performance, "now").mockImplementation(() => now);
  onTestFinished(() => void vi.restoreAllMocks());
  api.script({ when: posts, answer: "hang", times: 10 });
  await using started = start(client);
  const record = (uid: string): void => started.recorder.record({ ...pod, uid }, added);
  for (let minute = 0; minute < 6; minute++, now += 60_000)
    for (let i = 0; i < 101; i++) record(`${minute}/${i}`);
  const count = (reason: string): number => started.drops.filter((drop) => drop === reason).length;
  // One of six hundred is being sent.
  expect([count("queue"), count("rate")]).toEqual([600 - 1 - 512, 6]);
});

test("record() escapes what would act on a terminal [S-309]", async ({ api, client }) => {
  await using started = start(client);
  started.recorder.record(pod, { ...added, message: "no network \u202ea\u009b2J" });
  const message = "no network \\u202ea\\u009b2J";
  await eventually(() => expect(stored(api)).toMatchObject([{ message }]));
});

test("record() truncates a message at a character boundary", async ({ api, client }) => {
  await using started = start(client);
  started.recorder.record(pod, { ...added, message: "é".repeat(2000) });
  await eventually(() => expect(stored(api)).toHaveLength(1));
  const message = String(stored(api)[0]?.message);
  expect(Buffer.byteLength(message)).toBeLessThanOrEqual(1024);
  expect(message).toMatch(/^é+…$/);
});

test("recordOnNode() records an event in namespace default", async ({ api, client }) => {
  await using started = start(client);
  started.recorder.recordOnNode({ reason: "PlexusConfShadowed", message: "m" });
  await eventually(() => expect(stored(api)).toHaveLength(1));
  expect(stored(api)[0]).toMatchObject({
    metadata: { namespace: "default" },
    involvedObject: { kind: "Node", name: "node-1", uid: "node-1" },
  });
});

test("stop() sends queued events, no longer than its grace period", async ({ api, client }) => {
  await using started = start(client);
  started.recorder.record(pod, added);
  await started.recorder.stop(1000);
  expect(stored(api)).toHaveLength(1);

  await using stuck = start(client);
  api.script({ when: posts, answer: "hang", times: 10 });
  stuck.recorder.record(pod, { ...added, message: "never answered" });
  const startedAt = performance.now();
  await stuck.recorder.stop(30);
  // Half of the request's own time limit.
  expect(performance.now() - startedAt).toBeLessThan(5000);
  stuck.recorder.record(pod, added);
  expect(stored(api)).toHaveLength(1);
});
