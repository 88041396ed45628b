import { expect, onTestFinished, vi } from "vitest";
import { runCli } from "#cli/cli.ts";
import type { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import { kubeTest as test } from "#kube/testing/kube-test.ts";
import { podObject } from "#kube/testing/objects.ts";
import type { JsonObject } from "#lib/json.ts";

const namespace = "default";

async function uninstall(
  api: FakeApiServer,
  seconds = 3,
): Promise<{ code: number; out: string[]; err: string[] }> {
  const [out, err]: [string[], string[]] = [[], []];
  const flags = ["--namespace", namespace, "--kubeconfig", await api.kubeconfig()];
  const output = { out: (line: string) => out.push(line), err: (line: string) => err.push(line) };
  return {
    code: await runCli(["uninstall-cluster", ...flags, `--seconds=${seconds}`], output),
    out,
    err,
  };
}

/** The DaemonSet plexus-uninstall; `updated` nodes of `wanted` have a pod of its current template. */
function putUninstaller(api: FakeApiServer, wanted: number, updated: number): void {
  const status = {
    ...{ observedGeneration: 1, desiredNumberScheduled: wanted },
    updatedNumberScheduled: updated,
  };
  const metadata = { namespace, name: "plexus-uninstall", uid: "ds", generation: 1 };
  api.put("daemonsets", { metadata, status });
}

/** A pod of plexusd or of the uninstaller; the message is what its init container failed with. */
function putPod(
  api: FakeApiServer,
  node: string,
  { component = "uninstall", message = "", ready = false, owner = "ds" },
): void {
  const pod = podObject(`${component}-${node}`, { node });
  const labels = { "app.kubernetes.io/component": component, "app.kubernetes.io/name": "plexus" };
  const ownerReferences = [{ controller: true, uid: owner }];
  const terminated = { exitCode: 1, message };
  api.put("pods", {
    metadata: { ...(pod.metadata as JsonObject), labels, ownerReferences },
    spec: pod.spec as JsonObject,
    status: {
      conditions: [{ type: "Ready", status: ready ? "True" : "False" }],
      initContainerStatuses:
        message === "" ? [] : [{ state: { waiting: {} }, lastState: { terminated } }],
    },
  });
}

/** The requests that change something. */
function changes(api: FakeApiServer): string[] {
  const writes = api.seen.filter(({ method }) => method !== "GET");
  return writes.map(({ method, path }) => `${method} ${path.split("/").at(-1)}`);
}

test("uninstall-cluster deletes plexusd when every node can be handed back, waits for its pods, and then uninstalls", async ({
  api,
}) => {
  // The DaemonSet's status is older than that of its pods.
  putUninstaller(api, 2, 1);
  setTimeout(() => putUninstaller(api, 2, 2), 100);
  for (const node of ["a", "b"]) putPod(api, node, { ready: true });
  putPod(api, "a", { component: "node" });
  api.script({ when: ({ method }) => method === "DELETE", answer: 200, body: {} });
  api.script({ when: ({ method }) => method === "PATCH", answer: 200, body: {} });
  const { seen } = api;
  api.onRequest = (request) => {
    seen.push(request);
    if (request.method === "DELETE") setTimeout(() => api.delete("pods", "default/node-a"), 100);
    if (request.method !== "PATCH") return;
    expect(api.objects("pods").has("default/node-a")).toBe(false);
    expect(request.body).toContainEqual({
      op: "remove",
      path: "/spec/template/spec/initContainers/0/command/3",
    });
    putUninstaller(api, 2, 1);
    setTimeout(() => putUninstaller(api, 2, 2), 100);
  };
  expect(await uninstall(api)).toEqual({ code: 0, out: [], err: [] });
  expect(changes(api)).toEqual(["DELETE plexus", "PATCH plexus-uninstall"]);
});

test("uninstall-cluster changes nothing when a node cannot be handed back, and prints why", async ({
  api,
}) => {
  putUninstaller(api, 3, 1);
  putPod(api, "a", { ready: true });
  putPod(api, "b", { message: "sandboxes attached: 1 (default/web)\n" });
  putPod(api, "c", {});
  putPod(api, "d", { message: "of an earlier attempt", owner: "other" });
  expect(await uninstall(api)).toEqual({
    code: 1,
    out: [],
    err: [
      "b: sandboxes attached: 1 (default/web)",
      "c: no answer of the uninstaller in time",
      "Plexus is not uninstalled, and nothing was changed.",
    ],
  });
  expect(changes(api)).toEqual([]);
});

test("uninstall-cluster can be repeated after plexusd was deleted, and names the nodes that keep Plexus", async ({
  api,
}) => {
  putUninstaller(api, 1, 1);
  putPod(api, "a", { ready: true });
  api.script({ when: ({ method }) => method === "DELETE", answer: 404 });
  api.script({ when: ({ method }) => method === "PATCH", answer: 200, body: {} });
  const { seen } = api;
  api.onRequest = (request) => {
    seen.push(request);
    if (request.method !== "PATCH") return;
    putUninstaller(api, 1, 0);
    putPod(api, "a", { message: "sandboxes attached: 1 (default/new)" });
  };
  expect(await uninstall(api)).toEqual({
    code: 1,
    out: [],
    err: [
      "a: sandboxes attached: 1 (default/new)",
      expect.stringContaining("plexusd is deleted, but these nodes are not handed back"),
    ],
  });
});

test("uninstall-cluster hands 5,000 nodes back, and lists their pods in pages", async ({ api }) => {
  const all = 5000;
  putUninstaller(api, all, all);
  for (let n = 0; n < all; n++) putPod(api, `node-${n}`, { ready: true });
  api.script({ when: ({ method }) => method === "DELETE", answer: 200, body: {} });
  api.script({ when: ({ method }) => method === "PATCH", answer: 200, body: {} });
  expect(await uninstall(api, 1500)).toEqual({ code: 0, out: [], err: [] });
  const lists = api.seen.filter(({ query }) => query.get("labelSelector")?.includes("uninstall"));
  const pages = Array.from({ length: all / 250 }, (_, n) => ["250", n > 0]);
  expect(lists.map(({ query }) => [query.get("limit"), query.has("continue")])).toEqual([
    ...pages,
    ...pages,
  ]);
}, 60_000);

test("uninstall-cluster changes nothing when its time is too short for the nodes, and says what they need", async ({
  api,
}) => {
  putUninstaller(api, 900, 1);
  putPod(api, "a", { ready: true });
  expect(await uninstall(api, 180)).toEqual({
    code: 1,
    out: [],
    err: [
      "a node without a pod: no answer of the uninstaller in time",
      "Plexus is not uninstalled, and nothing was changed.",
      '900 nodes need 270 seconds: see "Uninstall" in docs/operations/helm.md.',
    ],
  });
  expect(changes(api)).toEqual([]);
});

test("uninstall-cluster tells its progress every ten seconds", async ({ api }) => {
  vi.useFakeTimers({ toFake: ["performance"] });
  onTestFinished(() => void vi.useRealTimers());
  putUninstaller(api, 2, 2);
  putPod(api, "a", { ready: true });
  putPod(api, "b", {});
  const { seen } = api;
  api.onRequest = (request) => {
    seen.push(request);
    vi.advanceTimersByTime(4000);
    if (seen.length === 8) putPod(api, "b", { message: "sandboxes attached: 1 (default/web)" });
  };
  const { out } = await uninstall(api, 600);
  expect(out).toEqual(["checks: 1 of 2 nodes are done"]);
});
