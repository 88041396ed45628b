import { mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import type { JsonObject } from "#lib/json.ts";
import { eventually } from "#lib/testing/eventually.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import type { KubeAdapter } from "./adapter.ts";
import type { JsonApi } from "./api/json-api.ts";
import { KeptDefinitions } from "./kept-definitions.ts";
import { LiveGetter } from "./live-get.ts";
import type { FakeApiServer } from "./testing/fake-api-server.ts";
import { kubeTest as test } from "./testing/kube-test.ts";
import { nadObject } from "./testing/objects.ts";
import { isGet, isList, type SeenRequest } from "./testing/requests.ts";
import { startSyncedAdapter } from "./testing/start-adapter.ts";

const nads = "network-attachment-definitions";
const crds = "customresourcedefinitions";
const before = "2026-01-01T00:00:00Z";
const between = "2026-01-02T00:00:00Z";
const after = "2026-01-03T00:00:00Z";

/** A definition as the API server has it. */
function nad(name: string, creationTimestamp = between, config?: string) {
  const { metadata, spec } = nadObject(name, config) as { metadata: JsonObject; spec: JsonObject };
  const ofServer = { uid: `uid-${name}`, managedFields: [{ manager: "helm" }] };
  const labels = { "app.kubernetes.io/managed-by": "Helm" };
  return { metadata: { ...metadata, creationTimestamp, labels, ...ofServer }, spec };
}

function putCrd(api: FakeApiServer, metadata: Record<string, string> = {}): void {
  const name = `${nads}.k8s.cni.cncf.io`;
  api.put(crds, { metadata: { name, creationTimestamp: before, ...metadata } });
}

/** As the API server does it: it deletes the objects first, then serves the type no more. */
async function deleteCrd(api: FakeApiServer, kube: KubeAdapter): Promise<void> {
  putCrd(api, { deletionTimestamp: after });
  for (const key of [...api.objects(nads).keys()]) api.delete(nads, key);
  await eventually(() => expect(cached(kube)).toBe(0));
  api.delete(crds, `${nads}.k8s.cni.cncf.io`);
  api.absent.add(nads);
  api.endWatches(nads, "break");
  await eventually(() => expect(kube.servesDefinitions()).toBe(false));
}

const cached = ({ keptDefinitions, source }: KubeAdapter): number =>
  [...(source.knownNads?.() ?? [])].length - [...(keptDefinitions?.missing() ?? [])].length;

const named = (name: string) => ({ namespace: "default", name });

const known = ({ source }: KubeAdapter): string[] =>
  [...(source.knownNads?.() ?? [])].map(({ name }) => name).toSorted();

const lost = ({ keptDefinitions }: KubeAdapter): string[] => [
  ...(keptDefinitions?.lostManifests().keys() ?? []),
];

const settle = ({ keptDefinitions }: KubeAdapter) => keptDefinitions?.settle();

/** Starts the adapter of a node with this state. */
async function start(api: FakeApiServer, dir: string, logger = new FakeLogger()) {
  const timings = { backoff: { initialMs: 5, maxMs: 20 }, absentMs: 10 };
  return startSyncedAdapter(api, { keptDefinitionsFile: fileIn(dir), timings, logger });
}

const fileIn = (dir: string): string => join(dir, "definitions.json");

const manifestsIn = async (dir: string): Promise<JsonObject[]> =>
  JSON.parse(await readFile(fileIn(dir), "utf8"));

/** The names of the definitions that the file has. */
const keptIn = async (dir: string): Promise<unknown[]> =>
  (await manifestsIn(dir)).map(({ metadata }) => (metadata as JsonObject).name).toSorted();

const eventsOf = (api: FakeApiServer) =>
  api.seen.flatMap(({ method, body }) =>
    method === "POST" ? [body as { reason: string; message: string }] : [],
  );

test("keeps a manifest of each definition in a file that only root can read", async ({ api }) => {
  const dir = await temporaryDirectory();
  api.put(nads, nad("net"));
  api.put(nads, { ...nad("invalid"), spec: { config: 7 } });
  await using kube = await start(api, dir);
  await settle(kube);
  expect(await keptIn(dir)).toEqual(["invalid", "net"]);
  const { metadata, spec } = nad("net");
  const { uid: _uid, managedFields: _managed, ...kept } = metadata;
  const type = { apiVersion: "k8s.cni.cncf.io/v1", kind: "NetworkAttachmentDefinition" };
  expect(await manifestsIn(dir)).toContainEqual({ ...type, metadata: kept, spec });
  expect((await stat(fileIn(dir))).mode & 0o777).toBe(0o600);
});

test("writes the file only when a definition changes", async ({ api }) => {
  const dir = await temporaryDirectory();
  api.put(nads, nad("net"));
  const file = fileIn(dir);
  await using kube = await start(api, dir);
  await settle(kube);
  const { ino } = await stat(file);
  api.put(nads, { ...nad("net"), status: { seen: true } });
  const version = api.seen.length;
  await eventually(() => expect(api.seen.length).toBeGreaterThanOrEqual(version));
  await settle(kube);
  expect((await stat(file)).ino).toBe(ino);
  api.put(nads, nad("net", between, '{"type":"ipvlan"}'));
  await eventually(async () => {
    await settle(kube);
    expect(await readFile(file, "utf8")).toContain("ipvlan");
  });
});

test("definitions that are deleted with their CRD are served, through restarts and while the new CRD is empty, until they are created again", async ({
  api,
}) => {
  const dir = await temporaryDirectory();
  putCrd(api);
  for (const name of ["a", "b"]) api.put(nads, nad(name));
  {
    await using kube = await start(api, dir);
    await settle(kube);
    await deleteCrd(api, kube);
    expect(known(kube)).toEqual(["a", "b"]);
    expect(await kube.source.getNad(named("a"), {})).toMatchObject({ name: "a" });
    await settle(kube);
    expect(lost(kube)).toEqual(["default/a", "default/b"]);
    await eventually(() =>
      expect(eventsOf(api)).toEqual([
        expect.objectContaining({
          reason: "DefinitionsLost",
          type: "Warning",
          message: expect.stringContaining("(default/a, default/b)"),
        }),
      ]),
    );
    const lists = api.seen.filter(isList(nads)).length;
    await eventually(() => expect(api.seen.filter(isList(nads)).length).toBeGreaterThan(lists + 2));
    await settle(kube);
    const repeated = ({ method, path }: SeenRequest) => method === "PATCH" && /events/.test(path);
    expect(api.seen.filter(repeated)).toEqual([]);
  }
  {
    await using kube = await start(api, dir);
    expect(await kube.source.getNad(named("b"), {})).toMatchObject({ name: "b" });
  }
  putCrd(api, { creationTimestamp: after });
  api.absent.clear();
  await using kube = await start(api, dir);
  expect(known(kube)).toEqual(["a", "b"]);
  await settle(kube);
  expect(lost(kube)).toEqual(["default/a", "default/b"]);
  api.put(nads, nad("a", after, '{"type":"bridge"}'));
  await eventually(() => expect(lost(kube)).toEqual(["default/b"]));
  const restored = await kube.source.getNad(named("a"), {});
  expect(restored?.config).toBe('{"type":"bridge"}');
  await settle(kube);
  api.delete(nads, "default/a");
  await eventually(() => expect(cached(kube)).toBe(0));
  await settle(kube);
  expect(known(kube)).toEqual(["b"]);
  expect(await keptIn(dir)).toEqual(["b"]);
  await kube.keptDefinitions?.discardLost();
  expect(await kube.source.getNad(named("b"), {})).toBeUndefined();
  expect(await keptIn(dir)).toEqual([]);
});

test("a definition that alone is deleted is deleted, at once for pods, also across a restart", async ({
  api,
}) => {
  const dir = await temporaryDirectory();
  putCrd(api);
  for (const name of ["a", "b", "c"]) api.put(nads, nad(name));
  {
    await using kube = await start(api, dir);
    await settle(kube);
    api.delete(nads, "default/a");
    await eventually(() => expect(cached(kube)).toBe(2));
    expect(await kube.source.getNad(named("a"), {})).toBeUndefined();
  }
  api.delete(nads, "default/b");
  await using kube = await start(api, dir);
  expect(await kube.source.getNad(named("b"), {})).toBeUndefined();
  await settle(kube);
  expect(known(kube)).toEqual(["c"]);
  expect(lost(kube)).toEqual([]);
  expect(await keptIn(dir)).toEqual(["c"]);
  expect(eventsOf(api)).toEqual([]);
});

test("a LIST while the CRD is being deleted may lack some: these are lost", async ({ api }) => {
  const dir = await temporaryDirectory();
  putCrd(api);
  for (const name of ["a", "b"]) api.put(nads, nad(name));
  await using first = await start(api, dir);
  await settle(first);
  await first.stop(100);
  putCrd(api, { deletionTimestamp: after });
  api.delete(nads, "default/a");
  await using kube = await start(api, dir);
  expect(await kube.source.getNad(named("a"), {})).toMatchObject({ name: "a" });
  await settle(kube);
  expect(lost(kube)).toEqual(["default/a"]);
  expect(known(kube)).toEqual(["a", "b"]);
});

test("a CRD that was replaced while plexusd did not run has lost the definitions of the former", async ({
  api,
}) => {
  const dir = await temporaryDirectory();
  putCrd(api);
  api.put(nads, nad("a"));
  await using first = await start(api, dir);
  await settle(first);
  await first.stop(100);
  api.delete(nads, "default/a");
  putCrd(api, { creationTimestamp: after });
  await using kube = await start(api, dir);
  await settle(kube);
  expect(lost(kube)).toEqual(["default/a"]);
});

test("decides nothing while the CRD cannot be read", async ({ api }) => {
  const dir = await temporaryDirectory();
  putCrd(api);
  api.put(nads, nad("a"));
  await using kube = await start(api, dir);
  await settle(kube);
  api.script({ when: isGet(`${nads}.k8s.cni.cncf.io`), answer: 400, times: 2 });
  api.delete(nads, "default/a");
  await eventually(() => expect(cached(kube)).toBe(0));
  await expect(settle(kube)).rejects.toThrow(/cannot read the CustomResourceDefinition .*HTTP 400/);
  await expect(kube.source.getNad(named("a"), {})).rejects.toThrow("HTTP 400");
  expect(await keptIn(dir)).toEqual(["a"]);
  await settle(kube);
  expect(await keptIn(dir)).toEqual([]);
});

test("without the permission to read the CRD, a pod does not get a definition that is gone, and it stays in the file", async ({
  api,
}) => {
  const dir = await temporaryDirectory();
  api.put(nads, nad("a"));
  await using kube = await start(api, dir);
  await settle(kube);
  api.script({ when: isGet(`${nads}.k8s.cni.cncf.io`), answer: 403, times: 2 });
  await deleteCrd(api, kube);
  expect(await kube.source.getNad(named("a"), {})).toBeUndefined();
  await expect(settle(kube)).rejects.toThrow("check the ClusterRole");
  expect(await keptIn(dir)).toEqual(["a"]);
  await settle(kube);
  expect(lost(kube)).toEqual(["default/a"]);
});

test("an API server that lacks the type for a moment loses nothing, and what is deleted meanwhile is deleted", async ({
  api,
}) => {
  const dir = await temporaryDirectory();
  putCrd(api);
  for (const name of ["a", "b"]) api.put(nads, nad(name));
  await using kube = await start(api, dir);
  await settle(kube);
  api.absent.add(nads);
  api.endWatches(nads, "break");
  await eventually(() => expect(kube.servesDefinitions()).toBe(false));
  await settle(kube);
  expect(lost(kube)).toEqual([]);
  expect(await keptIn(dir)).toEqual(["a", "b"]);
  api.delete(nads, "default/a");
  api.absent.clear();
  await eventually(() => expect(cached(kube)).toBe(1));
  await settle(kube);
  expect(await keptIn(dir)).toEqual(["b"]);
  expect(lost(kube)).toEqual([]);
});

test("existing definitions cost no request and no file", async ({ api }) => {
  const dir = await temporaryDirectory();
  api.put(nads, nad("a"));
  await using kube = await start(api, dir);
  await settle(kube);
  await rm(fileIn(dir));
  const requests = api.seen.length;
  expect(await kube.source.getNad(named("a"), {})).toMatchObject({ name: "a" });
  expect(api.seen.slice(requests).filter(({ query }) => !query.has("watch"))).toEqual([]);
});

test("without its file, or with a damaged one, everything else works", async ({ api }) => {
  const dir = await temporaryDirectory();
  putCrd(api);
  api.put(nads, nad("a"));
  await writeFile(fileIn(dir), '[{"metadata":');
  const logger = new FakeLogger();
  await using kube = await start(api, dir, logger);
  expect(JSON.stringify(logger.lines)).toContain("the kept definitions are damaged");
  await settle(kube);
  expect(await keptIn(dir)).toEqual(["a"]);
  await deleteCrd(api, kube);
  await rm(fileIn(dir));
  await settle(kube);
  expect(lost(kube)).toEqual(["default/a"]);
});

function newKept(dir: string, client: JsonApi, logger = new FakeLogger()) {
  const live = new LiveGetter(client, 1000);
  return new KeptDefinitions({ file: fileIn(dir), live, logger });
}

test("beyond the limit, the largest are not kept, and the log says how many", async ({
  client,
}) => {
  const dir = await temporaryDirectory();
  const logger = new FakeLogger();
  const kept = newKept(dir, client, logger);
  for (const name of ["a", "b"])
    kept.delivered(`default/${name}`, nad(name, between, "x".repeat(9 * 1024 * 1024)));
  kept.delivered("default/c", nad("c"));
  await kept.settle();
  expect(await keptIn(dir)).toEqual(["a", "c"]);
  expect(logger.lines).toMatchObject([{ fields: { notKept: 1 } }]);
});

test("what could not be written is written later", async ({ client }) => {
  const dir = await temporaryDirectory();
  const kept = newKept(join(dir, "later"), client);
  kept.delivered("default/a", nad("a"));
  await expect(kept.settle()).rejects.toThrow("ENOENT");
  await mkdir(join(dir, "later"));
  await kept.settle();
  expect(await keptIn(join(dir, "later"))).toEqual(["a"]);
});
