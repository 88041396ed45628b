import { afterEach, expect, test, vi } from "vitest";
import { PodFindings } from "#engine/call/pod-findings.ts";
import { notAttachedGraceMs } from "#engine/check/not-attached.ts";
import type { Pod, PodState } from "#engine/ports/cluster.ts";
import { FakeRecords } from "#engine/testing/fake-records.ts";
import type { NodePods } from "#kube/node/node.ts";
import { kubeTest } from "#kube/testing/kube-test.ts";
import { podObject } from "#kube/testing/objects.ts";
import type { Condition } from "#lib/condition.ts";
import { eventually } from "#lib/testing/eventually.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";
import { UnattachedPods } from "./unattached-pods.ts";

const keyOf = (name: string) => ({ containerId: `of-${name}`, ifName: "eth0" });

afterEach(() => void vi.restoreAllMocks());

/** A node with pods; some have records. `at` is the time. */
function makeNode(api?: Pick<NodePods, "list" | "read">) {
  const states = new Map<string, PodState>();
  const records = new FakeRecords([]);
  const events: string[] = [];
  const reads: string[] = [];
  const time = { at: 0 };
  vi.spyOn(performance, "now").mockImplementation(() => time.at);
  const findings = new PodFindings({
    record: ({ name }, { reason, message }) => events.push(`${name}: ${reason}: ${message}`),
  });
  const found = (): Condition[] => findings.all().map(({ condition }) => condition);
  const unattached = new UnattachedPods({
    nodePods: api ?? {
      list: () => [...states.values()],
      read: async (pod: Pod) => {
        reads.push(pod.name);
        return states.get(pod.name);
      },
    },
    records,
    findings,
    plexusNamespace: () => "kube-system",
  });
  const add = (name: string, change: Partial<PodState> = {}): void => {
    states.set(name, {
      namespace: "default",
      name,
      uid: `uid-of-${name}`,
      annotations: { [networksAnnotation]: "red" },
      hostNetwork: false,
      phase: "Running",
      isTerminating: false,
      podIps: ["10.244.0.7"],
      networkStatus: undefined,
      ...change,
    });
  };
  const attach = (name: string): void => {
    const pod = { namespace: "default", name, uid: `uid-of-${name}` };
    const of = { netns: "/run/netns/x", cniVersion: "1.0.0", pod, attachments: [] };
    const made = { createdAt: "2026-01-01T00:00:00Z", clockMs: 0, bootId: "b1" };
    records.put({ ...keyOf(name), ...of, ...made }, { bootId: "b1", attempted: 0, steps: [] });
  };
  const checkAt = async (at: number): Promise<void> => {
    time.at = at;
    await unattached.check();
  };
  return { found, states, records, events, reads, add, attach, checkAt };
}

const late = notAttachedGraceMs + 1000;

test("an unattached pod is reported once, and counted until it is deleted", async () => {
  const node = makeNode();
  node.add("web");
  await node.checkAt(0);
  await node.checkAt(notAttachedGraceMs - 1);
  expect([node.events, node.reads, node.found().length]).toEqual([[], [], 0]);
  for (const at of [late, late + 15_000, late + 900_000]) {
    await node.checkAt(at);
    expect(node.found().length).toBe(1);
    const message = expect.stringMatching(/^the pod runs without default\/red: /);
    expect(node.found()).toMatchObject([{ reason: "NotAttached", message }]);
  }
  expect(node.events).toEqual([
    expect.stringMatching(/^web: NotAttached: the pod runs without default\/red: .*delete the pod/),
  ]);
  node.states.delete("web");
  await node.checkAt(late + 901_000);
  expect(node.found().length).toBe(0);
});

test("attached, unannotated and hostNetwork pods are not reported; only the last kind is read", async () => {
  const node = makeNode();
  node.add("attached");
  node.add("plain", { annotations: {} });
  node.add("host", { hostNetwork: true });
  node.attach("attached");
  for (let at = 0; at < 300_000; at += 15_000) await node.checkAt(at);
  expect([node.events, node.reads, node.found().length]).toEqual([[], ["host"], 0]);
});

test("a pod whose record is damaged is not reported", async () => {
  const node = makeNode();
  for (const name of ["web", "other"]) node.add(name);
  node.attach("web");
  node.records.damage(keyOf("web"), "record");
  for (const at of [0, late]) await node.checkAt(at);
  expect(node.events).toEqual([expect.stringMatching(/^other: NotAttached/)]);
});

test("a pod whose invalid annotation was ignored is counted with the reason, and has had its event", async () => {
  const node = makeNode();
  node.add("web", { annotations: { [networksAnnotation]: '[{"name":"red"' } });
  node.attach("web");
  await node.checkAt(0);
  expect(node.found().length).toBe(0);
  for (const at of [late, late + 15_000]) await node.checkAt(at);
  expect([node.events, node.reads, node.found().length]).toEqual([[], ["web"], 1]);
  const message = expect.stringMatching(/ runs without the networks .*: .*annotation is invalid: /);
  expect(node.found()).toMatchObject([{ reason: "AnnotationIgnored", message }]);
  node.add("web");
  await node.checkAt(late + 30_000);
  expect(node.found().length).toBe(0);
});

test("a pod that waits for its sandbox is read once, and again when it has changed", async () => {
  const node = makeNode();
  node.add("web", { phase: "Pending" });
  for (let at = 0; at < 3_600_000; at += 15_000) await node.checkAt(at);
  expect([node.events, node.reads]).toEqual([[], ["web"]]);
  node.add("web");
  await node.checkAt(3_600_000);
  expect([node.events.length, node.reads.length]).toEqual([1, 2]);
});

kubeTest(
  "the API server gets one request for a pod and each of its changes",
  async ({ api, kube }) => {
    const { nodePods } = kube;
    const { checkAt, events } = makeNode(nodePods);
    const pod = podObject("web", { annotations: { [networksAnnotation]: "red" } });
    api.put("pods", { ...pod, status: { phase: "Pending" } });
    await eventually(() => expect(nodePods.list()).toHaveLength(1));
    const reads = () => api.seen.filter(({ path }) => path.endsWith("/pods/web")).length;
    for (let at = 0; at < 3_600_000; at += 15_000) await checkAt(at);
    expect([events, reads()]).toEqual([[], 1]);
    api.put("pods", { ...pod, status: { phase: "Running", podIP: "10.244.0.7" } });
    await eventually(async () => {
      await checkAt(3_600_000);
      expect(events).toHaveLength(1);
    });
    await checkAt(7_200_000);
    expect(reads()).toBe(2);
  },
);

test("a pod whose sandbox is recreated within the grace period is not reported", async () => {
  const node = makeNode();
  node.add("web");
  node.attach("web");
  await node.checkAt(0);
  await node.records.remove(keyOf("web"));
  await node.checkAt(15_000);
  node.attach("web");
  await node.checkAt(30_000);
  await node.records.remove(keyOf("web"));
  await node.checkAt(45_000 + late);
  expect([node.events, node.reads]).toEqual([[], []]);
});
