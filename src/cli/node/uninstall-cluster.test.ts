import { expect } from "vitest";
import type { ApiClient } from "#kube/api/client.ts";
import type { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import { kubeTest as test } from "#kube/testing/kube-test.ts";
import { podObject } from "#kube/testing/objects.ts";
import type { JsonObject } from "#lib/json.ts";
import { handNodesBack } from "./uninstall-cluster.ts";

const namespace = "default";

function uninstall(client: ApiClient, seconds = 3): Promise<readonly string[]> {
  return handNodesBack({ api: client, namespace }, seconds * 1000);
}

/** The DaemonSet plexus-uninstall: on how many nodes its pods are of the current template, and ready. */
function putUninstaller(
  api: FakeApiServer,
  wanted: number,
  { updated = wanted, ready = wanted, observed = 1, checks = true } = {},
): void {
  const status = {
    ...{ observedGeneration: observed, desiredNumberScheduled: wanted },
    ...{ updatedNumberScheduled: updated, numberReady: ready },
  };
  const metadata = { namespace, name: "plexus-uninstall", uid: "ds", generation: 1 };
  const command = ["node", "plexusctl.js", "uninstall", ...(checks ? ["--check"] : [])];
  const spec = { template: { spec: { initContainers: [{ command }] } } };
  api.put("daemonsets", { metadata, spec, status });
}

/** A pod of the uninstaller that is not done; the message is what its init container failed with. */
function putPod(api: FakeApiServer, node: string, { message = "", owner = "ds" } = {}): void {
  const pod = podObject(`uninstall-${node}`, { node });
  const labels = { "app.kubernetes.io/component": "uninstall", "app.kubernetes.io/name": "plexus" };
  const ownerReferences = [{ controller: true, uid: owner }];
  const terminated = { exitCode: 1, message };
  api.put("pods", {
    metadata: { ...(pod.metadata as JsonObject), labels, ownerReferences },
    spec: pod.spec as JsonObject,
    status: {
      phase: "Pending",
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

/** Answers these DELETEs of plexusd's DaemonSet one after another, and the PATCH of the other. */
function allowChanges(api: FakeApiServer, ...deletions: number[]): void {
  for (const answer of deletions) {
    const body = answer === 200 ? { body: {} } : {};
    api.script({ when: ({ method }) => method === "DELETE", answer, ...body });
  }
  api.script({ when: ({ method }) => method === "PATCH", answer: 200, body: {} });
}

test("uninstall-cluster deletes plexusd when every node can be handed back, waits for its pods, and then uninstalls", async ({
  api,
  client,
}) => {
  // One has no pod yet, and the controller has not seen the other's change.
  putUninstaller(api, 2, { updated: 1 });
  setTimeout(() => putUninstaller(api, 2, { observed: 0 }), 100);
  setTimeout(() => putUninstaller(api, 2), 1500);
  allowChanges(api, 200, 200, 404);
  const { seen } = api;
  api.onRequest = (request) => {
    seen.push(request);
    if (request.method === "DELETE") {
      expect(api.objects("daemonsets").get("default/plexus-uninstall")?.status).toMatchObject({
        observedGeneration: 1,
        updatedNumberScheduled: 2,
      });
      expect(request.query.get("propagationPolicy")).toBe("Foreground");
    }
    if (request.method !== "PATCH") return;
    expect(request.body).toContainEqual({
      op: "remove",
      path: "/spec/template/spec/initContainers/0/command/3",
    });
    // The checks are still ready.
    putUninstaller(api, 2, { updated: 1 });
    setTimeout(() => putUninstaller(api, 2, { ready: 1 }), 100);
    setTimeout(() => putUninstaller(api, 2), 1500);
  };
  expect(await uninstall(client, 12)).toEqual([]);
  const deletions = Array.from({ length: 3 }, () => "DELETE plexus");
  expect(changes(api)).toEqual([...deletions, "PATCH plexus-uninstall"]);
});

test("uninstall-cluster stops at a node that cannot be handed back", async ({ api, client }) => {
  putUninstaller(api, 4, { updated: 3, ready: 1 });
  putPod(api, "b", { message: "sandboxes attached: 1 (default/web)\n" });
  putPod(api, "c");
  putPod(api, "d", { message: "of an earlier attempt", owner: "other" });
  expect(await uninstall(client)).toEqual([
    "b: sandboxes attached: 1 (default/web)",
    "c: no answer of the uninstaller in time",
    "other nodes (1): no answer of the uninstaller in time",
    "Plexus is not uninstalled, and nothing was changed.",
  ]);
  expect(changes(api)).toEqual([]);
});

test("uninstall-cluster only waits for uninstallers that hand their nodes back already", async ({
  api,
  client,
}) => {
  putUninstaller(api, 2, { ready: 1, checks: false });
  putPod(api, "b", { message: "sandboxes that could not be detached: 1 (default/web)" });
  expect(await uninstall(client)).toEqual([
    "b: sandboxes that could not be detached: 1 (default/web)",
    "Plexus is not uninstalled, and nothing was changed.",
  ]);
  putUninstaller(api, 2, { checks: false });
  expect(await uninstall(client)).toEqual([]);
  expect(changes(api)).toEqual([]);
});

test("uninstall-cluster gives up at once when every node has answered, on thousands when a page of them has failed", async ({
  api,
  client,
}) => {
  putUninstaller(api, 5000, { ready: 4000 });
  for (let n = 0; n < 300; n++) putPod(api, `node-${n}`, { message: "sandboxes attached" });
  const err = await uninstall(client, 3600);
  expect(err).toHaveLength(252);
  expect(err.slice(249)).toEqual([
    expect.stringMatching(/^node-\d+: sandboxes attached$/),
    "other nodes (750): no answer of the uninstaller in time",
    "Plexus is not uninstalled, and nothing was changed.",
  ]);
  expect(changes(api)).toEqual([]);
});

test("uninstall-cluster stops while its DaemonSet's status is older", async ({ api, client }) => {
  putUninstaller(api, 1, { observed: 0 });
  expect(await uninstall(client, 1)).toEqual([
    "kube-controller-manager: no answer of the uninstaller in time",
    "Plexus is not uninstalled, and nothing was changed.",
  ]);
  expect(changes(api)).toEqual([]);
});

test("uninstall-cluster can be repeated, and names nodes that keep Plexus", async ({
  api,
  client,
}) => {
  putUninstaller(api, 1);
  allowChanges(api, 404);
  const { seen } = api;
  api.onRequest = (request) => {
    seen.push(request);
    if (request.method !== "PATCH") return;
    putUninstaller(api, 1, { ready: 0 });
    putPod(api, "a", { message: "sandboxes attached: 1 (default/new)" });
  };
  expect(await uninstall(client)).toEqual([
    "a: sandboxes attached: 1 (default/new)",
    expect.stringContaining("plexusd is deleted, but these nodes are not handed back"),
  ]);
});
