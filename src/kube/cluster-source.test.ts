import { expect } from "vitest";
import { kubeTest as test } from "#kube/testing/kube-test.ts";
import { nadObject, podObject } from "#kube/testing/objects.ts";
import { isGet, isList, isWatch } from "#kube/testing/requests.ts";
import type { Script } from "#kube/testing/responses.ts";
import { startAdapter, startSyncedAdapter, whenSynced } from "#kube/testing/start-adapter.ts";
import type { JsonObject } from "#lib/json.ts";
import { eventually } from "#lib/testing/eventually.ts";
import { mirrorAnnotation } from "#npwg/object-meta.ts";

const web = { namespace: "default", name: "web" };
const webWithUid = { ...web, uid: "uid-of-web" };

test("startKube() refuses an invalid node name", async ({ api }) => {
  await expect(startAdapter(api, { nodeName: "Node_1" })).rejects.toThrow(
    "the node name must be a DNS-1123 subdomain (a-z, 0-9, '-' and '.'), got \"Node_1\"",
  );
});

test("getPod() and getNad() answer from the caches, without a request", async ({ api }) => {
  const annotations = { "k8s.v1.cni.cncf.io/networks": "net-a", "example.com/other": "x" };
  api.put("pods", podObject("web", { annotations }));
  api.put("network-attachment-definitions", nadObject("net-a"));
  await using kube = await startSyncedAdapter(api);
  const requests = api.seen.length;
  expect(await kube.source.getPod({ ...web, uid: "uid-of-web" }, {})).toMatchObject({
    ...web,
    uid: "uid-of-web",
    annotations: expect.not.objectContaining({ "example.com/other": "x" }),
  });
  expect(await kube.source.getNad({ namespace: "default", name: "net-a" }, {})).toEqual({
    namespace: "default",
    name: "net-a",
    annotations: { "k8s.v1.cni.cncf.io/resourceName": "vendor.example/nic" },
    config: '{"type":"macvlan","name":"net-a"}',
  });
  expect(api.seen.slice(requests).filter((each) => !each.query.has("watch"))).toEqual([]);
});

test("getPodObject() reads the whole pod and checks the UID [D-10]", async ({ api, kube }) => {
  api.objects("pods").set("default/web", podObject("web"));
  const identity = { ...web, uid: "uid-of-web" };
  const [, object] = await Promise.all([
    kube.source.getPod(identity, {}),
    kube.source.getPodObject(identity, {}),
  ]);
  expect(object).toMatchObject({ spec: { containers: [{ name: "main" }] } });
  expect(await kube.source.getPodObject({ ...web, uid: "another" }, {})).toBeUndefined();
  expect(await kube.source.getPodObject({ ...web, name: "none" }, {})).toBeUndefined();
  expect(
    api.seen
      .filter(isGet("pods/web"))
      .some(({ headers }) => !headers.accept?.includes("PartialObject")),
  ).toBe(true);
});

test("LIST and WATCH request only metadata of this node's pods", async ({ api, kube: _kube }) => {
  const list = api.seen.find(isList("pods"));
  expect(list?.query.get("fieldSelector")).toBe("spec.nodeName=node-1");
  expect(list?.headers.accept).toContain("as=PartialObjectMetadataList;");
  await eventually(() => expect(api.watching("pods")).toBe(1));
  expect(api.seen.find(isWatch("pods"))?.headers.accept).toContain("as=PartialObjectMetadata;");
});

/** A pod in the API server: its UID and optionally one annotation. */
type KnownPod = readonly [uid: string, annotation?: string, value?: string];
const mirror: KnownPod = ["mirror", mirrorAnnotation, "of-kubelet"];
const former: KnownPod = ["former", mirrorAnnotation, "of-former"];
const ofApi: KnownPod = ["mirror", "kubernetes.io/config.source", "api"];

test.for<[string, KnownPod | undefined, KnownPod | undefined, string, string | undefined]>([
  ["reads a pod live that the cache lacks", undefined, ["u1"], "u1", "u1"],
  ["returns undefined when the API server answers 404", undefined, undefined, "u1", undefined],
  [
    "returns undefined for a pod of the same name with another UID",
    ["u2"],
    ["u2"],
    "u1",
    undefined,
  ],
  ["finds the new pod when only the cache still has the old one", ["u1"], ["u2"], "u2", "u2"],
  [
    "finds the mirror of a static pod, which has another UID",
    mirror,
    mirror,
    "of-kubelet",
    "mirror",
  ],
  [
    "finds the new mirror when only the cache still has the old one",
    former,
    mirror,
    "of-kubelet",
    "mirror",
  ],
  ["finds a mirror by its own UID", mirror, mirror, "mirror", "mirror"],
  ["does not take the mirror of a former static pod", former, former, "of-kubelet", undefined],
  ["does not treat config.source=api as a static pod", ofApi, ofApi, "of-kubelet", undefined],
])("getPod() %s", async ([, cached, live, uid, found], { api }) => {
  const objectOf = ([known, key, value = ""]: KnownPod): JsonObject =>
    podObject("web", { uid: known, ...(key && { annotations: { [key]: value } }) });
  if (cached !== undefined) api.put("pods", objectOf(cached));
  await using kube = await startSyncedAdapter(api);
  if (live !== undefined) api.objects("pods").set("default/web", objectOf(live));
  expect((await kube.source.getPod({ ...web, uid }, {}))?.uid).toBe(found);
  expect(api.seen.filter(isGet("web"))).toHaveLength(cached === mirror ? 0 : 1);
});

test.for<[string, string, string | undefined]>([
  ["is the pod of this node", "node-1", "uid-of-web"],
  ["is not the pod of another node", "node-2", undefined],
])("getPod() without a UID, as some runtimes call: a name %s", async ([, node, uid], { api }) => {
  await using kube = await startSyncedAdapter(api);
  api.objects("pods").set("default/web", podObject("web", { node }));
  expect((await kube.source.getPod(web, {}))?.uid).toBe(uid);
  expect((await kube.source.getPod({ ...web, uid: "uid-of-web" }, {}))?.uid).toBe("uid-of-web");
});

const proxy = /check the address http:.* and the proxies in front of it/;
const overloaded = /check the load and the log of the API server at http:/;
const location = "https://login.example/";

test.for<[what: string, script: Omit<Script, "when">, answer: RegExp, advice: RegExp]>([
  [
    "hangs",
    { answer: "hang" },
    / within 1000 ms \(GET .*: no answer within \d+ ms\)/,
    /check that this node reaches the API server at http:/,
  ],
  ["is overloaded", { answer: 429, body: "Too many" }, / server \(GET .*: Too many/, overloaded],
  ["has a problem", { answer: 504 }, / server \(GET .*HTTP 504 Scripted: fake/, overloaded],
  ["is a proxy without a route", { answer: 404, body: "<b>No" }, /HTTP 404: <b>No/, proxy],
  ["refuses", { answer: 403 }, / server \(GET .*HTTP 403 /, /check the ClusterRole and the token/],
  [
    "is a proxy that redirects",
    { answer: 302, body: "", headers: { location } },
    / server \(GET .*: HTTP 302: it redirects to https:\/\/login\.example\/\)/,
    proxy,
  ],
  ["is a proxy that refuses", { answer: 403, body: "<b>No" }, /HTTP 403: <b>No\)/, proxy],
  [
    "is a proxy with a page",
    { answer: 200, body: "<b>" },
    /GET .*: .*not a JSON object: <b>/,
    proxy,
  ],
  ["answers nothing", { answer: 200, body: "" }, / server \(GET .*: the answer is empty/, proxy],
  ["answers null", { answer: 200, body: null }, /GET .*: .*not a JSON object: null/, proxy],
])("getPod() fails with code 11 and fitting advice if the API server %s", async (row, { api }) => {
  const [, script, answer, advice] = row;
  await using kube = await startSyncedAdapter(api);
  api.script({ when: isGet("web"), times: 100, ...script });
  const error = await kube.source.getPod(web, {}).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: 11, message: expect.stringMatching(answer) });
  expect(error).toMatchObject({ message: expect.stringMatching(advice) });
});

test("getPod() reports the API server's last answer, not that the repetition after it was late", async ({
  api,
}) => {
  await using kube = await startSyncedAdapter(api);
  api.script({ when: isGet("web"), answer: 504 });
  api.script({ when: isGet("web"), answer: "hang", times: 100 });
  await expect(kube.source.getPod(web, {})).rejects.toThrow(/ server \(GET .*HTTP 504 /);
});

test("getPod() retries within its deadline when a connection is dead", async ({ api }) => {
  api.objects("pods").set("default/web", podObject("web", { node: "not-yet-cached" }));
  await using kube = await startSyncedAdapter(api, { apiTimeoutMs: 3000 });
  api.script({ when: isGet("web"), answer: "hang" });
  api.script({ when: isGet("web"), answer: "reset" });
  api.script({ when: isGet("web"), answer: 503 });
  expect(await kube.source.getPod(webWithUid, {})).toMatchObject({ name: "web" });
});

test.for([
  ["hangs", []],
  ["fails", ["reset"]],
  ["is refused for the moment", [429]],
] as const)(
  "getPod() hears an API server that needs more than half of the time, also if the request beside the first one %s",
  async ([, failures], { api }) => {
    api.objects("pods").set("default/web", podObject("web", { node: "not-yet-cached" }));
    await using kube = await startSyncedAdapter(api, { apiTimeoutMs: 2000 });
    const last = Promise.withResolvers<void>();
    api.script({ when: isGet("web"), answer: last.promise });
    for (const answer of failures) api.script({ when: isGet("web"), answer });
    const noteLast: Script["when"] = (request) => {
      if (isGet("web")(request)) last.resolve();
      return isGet("web")(request);
    };
    api.script({ when: noteLast, answer: "hang", times: 10 });
    expect(await kube.source.getPod(webWithUid, {})).toMatchObject({ name: "web" });
    expect(api.seen.filter(isGet("web"))).toHaveLength(2 + failures.length);
  },
);

test("getPod() asks a second time on a new connection", async ({ api }) => {
  await using kube = await startSyncedAdapter(api, { apiTimeoutMs: 1000 });
  // Both answers leave an idle connection that is half-open from now on.
  await Promise.all([kube.source.getPod(web, {}), kube.source.getPod({ ...web, name: "db" }, {})]);
  api.breakConnections();
  api.objects("pods").set("default/web", podObject("web", { node: "not-yet-cached" }));
  expect(await kube.source.getPod(webWithUid, {})).toMatchObject({ name: "web" });
});

test("getPod() fails at once with advice when it is forbidden", async ({ api, kube }) => {
  api.script({ when: isGet("web"), answer: 403, times: 100 });
  await expect(kube.source.getPod(web, {})).rejects.toMatchObject({
    code: 11,
    message: expect.stringContaining("ClusterRole"),
  });
  expect(api.seen.filter(isGet("web"))).toHaveLength(1);
});

test("getPod() is cancelled for the aborting caller, not for others", async ({ api }) => {
  api.objects("pods").set("default/web", podObject("web", { node: "x" }));
  await using kube = await startSyncedAdapter(api);
  api.script({ when: isGet("web"), answer: 503 });
  const caller = new AbortController();
  const first = kube.source.getPod(webWithUid, { signal: caller.signal });
  const second = kube.source.getPod(webWithUid, {});
  caller.abort(new Error("the shim has gone"));
  await expect(first).rejects.toThrow("the shim has gone");
  await expect(second).resolves.toMatchObject({ name: "web" });
});

test("getNad() shares one request among simultaneous callers", async ({ api, kube }) => {
  const nads = await Promise.all(
    Array.from({ length: 20 }, () =>
      kube.source.getNad({ namespace: "default", name: "none" }, {}),
    ),
  );
  expect(nads.every((nad) => nad === undefined)).toBe(true);
  expect(api.seen.filter(isGet("none"))).toHaveLength(1);
});

test("getNad() reads uncached definitions live, and none without CRD", async ({ api }) => {
  api.absent.add("network-attachment-definitions");
  await using kube = await startSyncedAdapter(api);
  expect(await kube.source.getNad({ namespace: "default", name: "net-a" }, {})).toBeUndefined();
  api.absent.clear();
  api.objects("network-attachment-definitions").set("default/net-a", nadObject("net-a"));
  expect(await kube.source.getNad({ namespace: "default", name: "net-a" }, {})).toMatchObject({
    name: "net-a",
  });
});

const { metadata = {} } = nadObject("net-a");
test.for([
  [
    "an invalid",
    { metadata, spec: { config: { type: "macvlan" } } },
    { code: 7, message: 'spec.config: must be a string, got {"type":"macvlan"}' },
  ],
  [
    "too long a",
    nadObject("net-a", " ".repeat(131_073)),
    { code: 100, message: "spec.config has 131073 bytes, more than the limit of 131072" },
  ],
] as const)("getNad() rejects %s definition; the cache does not keep it", async (row, { api }) => {
  const [, object, { code, message }] = row;
  api.put("network-attachment-definitions", object);
  await using kube = await startSyncedAdapter(api);
  await expect(
    kube.source.getNad({ namespace: "default", name: "net-a" }, {}),
  ).rejects.toMatchObject({
    code,
    message: `NetworkAttachmentDefinition "default/net-a": ${message}`,
  });
});

test("getPod() and getNad() do not wait for LISTs of a plexusd that starts", async ({ api }) => {
  const nads = "network-attachment-definitions";
  api.put("pods", podObject("web"));
  api.put(nads, nadObject("net-a"));
  for (const kind of ["pods", nads]) api.script({ when: isList(kind), answer: "hang", times: 9 });
  await using kube = await startAdapter(api);
  expect(await kube.source.getPod(webWithUid, {})).toMatchObject(web);
  expect(await kube.source.getNad({ ...web, name: "net-a" }, {})).toMatchObject({ name: "net-a" });
  expect(kube.source.notReadyReason()).toContain("have not been listed yet");
});

test("notReadyReason() names what is missing until both caches are synced", async ({ api }) => {
  api.put("pods", podObject("web"));
  api.script({ when: isList("pods"), answer: 403, times: 25 });
  await using kube = await startAdapter(api);
  await eventually(() =>
    expect(kube.source.notReadyReason()).toMatch(/pods of this node.*HTTP 403/),
  );
  await whenSynced(kube);
  api.script({ when: () => true, answer: "reset", times: 1000 });
  api.endWatches("pods", "break");
  expect(kube.source.notReadyReason()).toBeUndefined();
  expect(await kube.source.getPod({ ...web, uid: "uid-of-web" }, {})).toMatchObject(web);
});

test.for<[string, Partial<Script>]>([
  ["a permission was taken away", { when: isList("pods"), answer: 403 }],
  ["another one was", { when: isList("network-attachment-definitions"), answer: 403 }],
  ["nothing answers", { answer: "hang" }],
])("lookUpProblem() finds what the open watches do not show: %s", async ([, script], { api }) => {
  await using kube = await startSyncedAdapter(api, { apiTimeoutMs: 300 });
  expect(await kube.source.lookUpProblem?.()).toBeUndefined();
  api.script({ when: () => true, answer: 403, times: Infinity, ...script });
  expect(await kube.source.lookUpProblem?.()).toMatch(/^cannot read \/api.* from the API server/);
  expect(kube.source.notReadyReason()).toBeUndefined();
});

test("namespaceMatches() has the API server compare labels, once for calls at the same time", async ({
  api,
  kube,
}) => {
  const when = { when: isList("namespaces"), answer: 200 };
  const labels = (namespace: string, selector: string) =>
    kube.source.namespaceMatches(namespace, selector);
  api.script({ ...when, body: { items: [{ metadata: { name: "shop" } }] } });
  expect(await Promise.all([labels("shop", "a in (b)"), labels("shop", "a in (b)")])).toEqual([
    true,
    true,
  ]);
  const asked = api.seen.filter(isList("namespaces"));
  expect(asked.map(({ query }) => Object.fromEntries(query))).toEqual([
    { fieldSelector: "metadata.name=shop", labelSelector: "a in (b)" },
  ]);
  api.script({ ...when, body: { items: [] } });
  expect(await labels("shop", "c=d")).toBe(false);
  api.script({ ...when, answer: 400, body: { message: "unable to parse requirement" } });
  await expect(labels("shop", "=")).rejects.toMatchObject({
    code: 11,
    message: expect.stringMatching(/selector "=" .*unable to parse requirement/),
  });
});
