import { expect } from "vitest";
import { kubeTest as test } from "#kube/testing/kube-test.ts";
import { podObject } from "#kube/testing/objects.ts";
import { startSyncedAdapter } from "#kube/testing/start-adapter.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";

const key = "plexus.dev/not-ready";
const other = { key: "node.kubernetes.io/unschedulable", effect: "NoSchedule" };

const answer = (method: string, status: number, body: object) => ({
  when: (request: { method: string; path: string }) =>
    request.method === method && request.path === "/api/v1/nodes/node-1",
  answer: status,
  body,
});

test("removeTaint() replaces the taints only if they did not change", async ({ api, kube }) => {
  const taints = [{ key, effect: "NoSchedule" }, other, { key, effect: "NoExecute" }];
  api.script(answer("GET", 200, { spec: { taints } }));
  api.script(answer("PATCH", 200, {}));
  expect(await kube.removeTaint(key)).toBe(true);
  const patch = api.seen.find(({ method }) => method === "PATCH");
  expect(patch?.headers["content-type"]).toBe("application/json-patch+json");
  expect(patch?.body).toEqual([
    { op: "test", path: "/spec/taints", value: taints },
    { op: "replace", path: "/spec/taints", value: [other] },
  ]);
});

test.for([{ spec: { taints: [other] } }, { spec: {} }])(
  "removeTaint() writes nothing if the node lacks the taint: %j",
  async (node, { api, kube }) => {
    api.script(answer("GET", 200, node));
    expect(await kube.removeTaint(key)).toBe(false);
    expect(api.seen.filter(({ method }) => method === "PATCH")).toEqual([]);
  },
);

test("removeTaint() fails after a concurrent change, or if forbidden", async ({ api, kube }) => {
  api.script(answer("GET", 200, { spec: { taints: [{ key }] } }));
  api.script(answer("PATCH", 422, { message: "the server rejected our request" }));
  await expect(kube.removeTaint(key)).rejects.toThrow("rejected");
  api.script(answer("GET", 403, { message: 'nodes "node-1" is forbidden' }));
  await expect(kube.removeTaint(key)).rejects.toThrow("forbidden");
});

test("requestToken() asks for a token that is bound to the Node", async ({ api, kube }) => {
  const path = "/api/v1/namespaces/kube-system/serviceaccounts/plexusd/token";
  const when = (request: { path: string }) => request.path === path;
  const account = { namespace: "kube-system", name: "plexusd" };
  api.script({ when, answer: 201, body: { status: { token: "granted" } } });
  expect(await kube.requestToken(account, 600)).toBe("granted");
  expect(api.seen.find(when)).toMatchObject({
    method: "POST",
    body: { spec: { expirationSeconds: 600, boundObjectRef: { kind: "Node", name: "node-1" } } },
  });
  api.script({ when, answer: 201, body: {} });
  await expect(kube.requestToken(account, 600)).rejects.toThrow("granted no token");
});

test("nodePods lists the node's pods and reads their spec and status live", async ({ api }) => {
  const annotations = { [networksAnnotation]: "red", "k8s.v1.cni.cncf.io/network-status": "[]" };
  const web = podObject("web", { annotations });
  const status = {
    phase: "Running",
    podIP: "10.0.0.7",
    podIPs: [{ ip: "10.0.0.7" }, { ip: "fd00::7" }],
  };
  api.put("pods", { ...web, status });
  api.put("pods", podObject("elsewhere", { node: "node-2" }));
  await using kube = await startSyncedAdapter(api);
  const [pod, ...more] = kube.nodePods.list();
  expect([pod?.name, more]).toEqual(["web", []]);
  // The cache keeps no status, which can be long.
  expect(pod?.annotations).toEqual({ [networksAnnotation]: "red" });
  if (pod === undefined) throw new Error("there is no pod");
  expect(await kube.nodePods.read(pod)).toMatchObject({
    uid: "uid-of-web",
    hostNetwork: false,
    phase: "Running",
    isTerminating: false,
    podIps: ["10.0.0.7", "fd00::7"],
    networkStatus: "[]",
  });
  expect(await kube.nodePods.read({ ...pod, uid: "another" })).toBeUndefined();
  expect(await kube.nodePods.read({ ...pod, name: "gone" })).toBeUndefined();
});

test("nodePods.read() shares no request, which may be older than the edit", async ({ api }) => {
  api.put("pods", podObject("web"));
  await using kube = await startSyncedAdapter(api);
  const [pod] = kube.nodePods.list();
  if (pod === undefined) throw new Error("there is no pod");
  await Promise.all([kube.nodePods.read(pod), kube.nodePods.read(pod)]);
  expect(api.seen.filter(({ path }) => path.endsWith("/pods/web"))).toHaveLength(2);
});

test("isRejected() asks with the token; no answer is no rejection", async ({ api, kube }) => {
  api.token = "of the Node that is there";
  expect(await kube.isRejected("of the Node that is there")).toBe(false);
  expect(await kube.isRejected("of the Node before")).toBe(true);
  api.script({ when: ({ path }) => path === "/version", answer: 503 });
  expect(await kube.isRejected("of the Node that is there")).toBe(false);
});
