import { describe, expect } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import type { FakeApiServer } from "#kube/testing/fake-api-server.ts";
import { kubeTest } from "#kube/testing/kube-test.ts";
import { podObject } from "#kube/testing/objects.ts";
import type { JsonObject } from "#lib/json.ts";
import { eventually } from "#lib/testing/eventually.ts";
import { OwnDaemonSet } from "./own-daemonset.ts";

const pod = { namespace: "default", name: "plexus-x" };
const owner = { apiVersion: "apps/v1", kind: "DaemonSet", name: "plexus", uid: "u1" };
const daemonSet = { metadata: { namespace: "default", name: "plexus" } };

const account = "default/plexusd";

/** What a pod of a DaemonSet knows of it, while it watches its service account. */
const test = kubeTest.extend("own", async ({ api, client }, { onCleanup }) => {
  api.put("pods", podOwnedBy([owner]));
  api.put("daemonsets", daemonSet);
  api.put("serviceaccounts", { metadata: { namespace: "default", name: "plexusd" } });
  const timings = { retryMs: 5, atMostMs: 200 };
  const own = new OwnDaemonSet({ client, pod, logger: new FakeLogger(), timings });
  onCleanup(() => own.stop());
  await own.find();
  await eventually(() => expect(api.watching("serviceaccounts")).toBe(1));
  return own;
});

function podOwnedBy(ownerReferences: JsonObject[]): JsonObject {
  const object = podObject(pod.name);
  const metadata = { ...(object.metadata as JsonObject), ownerReferences };
  return { ...object, metadata, spec: { serviceAccountName: "plexusd" } };
}

/** Answers the next requests with an HTTP status. */
function refuse(api: FakeApiServer, status: number, { only = "", times = Infinity } = {}): void {
  api.script({ when: ({ path }) => path.includes(only), answer: status, times });
}

const deletionTimestamp = "2026-01-01T00:00:00Z";

describe("OwnDaemonSet.find()", () => {
  test.for<[string, number | undefined, number[]]>([
    ["tells how many nodes it is for", undefined, [250]],
    ["does without, where the DaemonSet may not be read", 403, []],
  ])("%s", async ([, answer, expected], { api, client }) => {
    api.put("pods", podOwnedBy([owner]));
    api.put("daemonsets", { ...daemonSet, status: { desiredNumberScheduled: 250 } });
    if (answer !== undefined) refuse(api, answer, { only: "daemonsets" });
    const counts: number[] = [];
    const onNodes = (count: number): void => void counts.push(count);
    const common = { client, pod, logger: new FakeLogger() };
    await new OwnDaemonSet({ ...common, onNodes }).find();
    expect(counts).toEqual(expected);
  });
});

describe("OwnDaemonSet.isDeleted()", () => {
  test.for<[string, (api: FakeApiServer) => unknown, boolean]>([
    ["exists", () => undefined, false],
    ["was deleted", (api) => api.delete("daemonsets", "default/plexus"), true],
    [
      "is deleted in the foreground",
      (api) => api.put("daemonsets", { metadata: { ...daemonSet.metadata, deletionTimestamp } }),
      true,
    ],
    [
      "was deleted, and another one has adopted the pod",
      (api) => {
        api.delete("daemonsets", "default/plexus");
        api.put("daemonsets", { metadata: { namespace: "default", name: "renamed" } });
        api.put("pods", podOwnedBy([{ ...owner, name: "renamed" }]));
      },
      false,
    ],
    [
      "exists, and a proxy has no route to the server",
      (api) => api.script({ when: () => true, answer: 404, body: "<html>", times: Infinity }),
      false,
    ],
    ["cannot be read, as the server fails", (api) => refuse(api, 500), false],
    ["cannot be read, as the server is gone", (api) => api.fail("gone"), false],
    [
      "cannot be read, as its permission alone is missing",
      (api) => refuse(api, 403, { only: "daemonsets" }),
      false,
    ],
    ["cannot be read, as every permission is missing", (api) => refuse(api, 403), false],
    ["exists, and the token is refused: keys were rotated", (api) => refuse(api, 401), false],
    [
      "was deleted with the service account",
      (api) => {
        refuse(api, 401);
        api.delete("serviceaccounts", account);
      },
      true,
    ],
    [
      "was deleted with all permissions, and then the service account",
      (api) => {
        refuse(api, 403, { times: 6 });
        refuse(api, 401);
        setTimeout(() => api.delete("serviceaccounts", account), 20);
      },
      true,
    ],
    [
      "was deleted, then its permission, the others, and the service account: helm uninstall",
      (api) => {
        refuse(api, 403, { only: "daemonsets" });
        setTimeout(() => {
          refuse(api, 401);
          api.delete("serviceaccounts", account);
        }, 20);
      },
      true,
    ],
    [
      "exists, and the pod was deleted by force",
      (api) => {
        api.delete("pods", "default/plexus-x");
        refuse(api, 401);
      },
      false,
    ],
    [
      "exists, and the service account was created again",
      (api) => {
        refuse(api, 401);
        api.delete("serviceaccounts", account);
        api.put("serviceaccounts", { metadata: { namespace: "default", name: "plexusd" } });
      },
      false,
    ],
  ])("when the DaemonSet %s", async ([, change, expected], { api, own }) => {
    await change(api);
    expect(await own.isDeleted()).toBe(expected);
  });

  test("is false for a pod of no DaemonSet, and before the DaemonSet is found", async ({
    api,
    client,
  }) => {
    const common = { client, pod, logger: new FakeLogger() };
    const early = new OwnDaemonSet(common);
    await expect(early.find()).rejects.toThrow("404");
    expect(await early.isDeleted()).toBe(false);
    for (const other of [
      { apiVersion: "apps/v1", kind: "ReplicaSet", name: "plexus" },
      { apiVersion: "apps.kruise.io/v1alpha1", kind: "DaemonSet", name: "plexus" },
    ]) {
      api.put("pods", podOwnedBy([other]));
      const found = new OwnDaemonSet(common);
      await found.find();
      expect(await found.isDeleted()).toBe(false);
    }
  });
});
