import { expect, test } from "vitest";
import { FakeSandboxHosts } from "#engine/hotplug/testing/fake-sandbox-hosts.ts";
import { podAnnotationsCapability } from "#engine/plan/pod/runtime-pod.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import { teardownPlan } from "#engine/record/teardown-plan.ts";
import { EngineLab, network, sandbox } from "#engine/testing/engine-lab.ts";
import { mirrorAnnotation } from "#npwg/object-meta.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";

/** The mirror of a static pod, as the kubelet makes it. */
function mirrorOf(uid: string, { networks = "a", of = "static" } = {}): Pod {
  const annotations = { [mirrorAnnotation]: of, [networksAnnotation]: networks };
  return { namespace: "default", name: "web", uid, annotations, isStatic: true };
}

/** A static pod that is attached to `a`, and whose first mirror is deleted then. */
async function attached(pod = "default/web/static"): Promise<EngineLab> {
  const lab = new EngineLab({ config: { hotPlug: true } });
  lab.source.addNad("default/a", network("net-a", "bridge"));
  lab.source.addNad("default/b", network("net-b", "macvlan"));
  lab.source.addPod(mirrorOf("mirror-1"));
  expect(await lab.add({ pod })).toMatchObject({ exitCode: 0 });
  lab.publisher.published.clear();
  return lab;
}

const recordedUid = async ({ records }: EngineLab): Promise<string | undefined> =>
  (await records.load(sandbox))?.record.pod?.uid;

test("the new mirror of a static pod gets the status, and is recorded", async () => {
  const lab = await attached();
  expect(await lab.engine.adoptMirror(mirrorOf("mirror-2"), lab.conf)).toBe(true);
  expect(await recordedUid(lab)).toBe("mirror-2");
  await new Promise(setImmediate);
  expect(lab.publisher.status("default/web").map(({ interface: name }) => name)).toEqual([
    "eth0",
    "net1",
  ]);
  expect((await lab.records.load(sandbox))?.record.pendingStatus).toBeUndefined();
  const writes = lab.records.writes.length;
  expect(await lab.engine.adoptMirror(mirrorOf("mirror-2"), lab.conf)).toBe(true);
  expect(lab.records.writes).toHaveLength(writes);
});

test("a static pod that was attached before its mirror was known gets the status with it", async () => {
  const lab = new EngineLab();
  lab.publisher.outcome = "pending";
  const described = { [networksAnnotation]: "a", "kubernetes.io/config.source": "file" };
  const conf = { runtimeConfig: { [podAnnotationsCapability]: described } };
  lab.source.addNad("default/a", network("net-a", "bridge"));
  expect(await lab.add({ pod: "default/web/static", conf })).toMatchObject({ exitCode: 0 });
  expect(await recordedUid(lab)).toBe("static");
  lab.publisher.outcome = "settled";
  expect(await lab.engine.adoptMirror(mirrorOf("mirror-1"), lab.conf)).toBe(true);
  await new Promise(setImmediate);
  expect(await recordedUid(lab)).toBe("mirror-1");
  expect(lab.publisher.status("default/web")).toHaveLength(2);
});

test("edits of the new mirror change the pod's networks", async () => {
  const lab = await attached();
  const mirror = mirrorOf("mirror-2", { networks: "a,b" });
  await lab.engine.adoptMirror(mirror, lab.conf);
  const live = { hostNetwork: false, phase: "Running", isTerminating: false, podIps: [] };
  const outcome = await lab.engine.hotPlug(mirror, {
    hosts: new FakeSandboxHosts(lab),
    conf: async () => lab.conf,
    read: async (pod) => ({ ...pod, ...live, networkStatus: undefined }),
    isEdit: true,
  });
  expect(outcome).toMatchObject({ state: "settled", operations: [{ op: "add", ifName: "net2" }] });
});

test("the mirror of another static pod of that name, or of none, changes nothing", async () => {
  const lab = await attached();
  for (const of of ["changed", ""]) {
    expect(await lab.engine.adoptMirror(mirrorOf("mirror-2", { of }), lab.conf)).toBe(true);
  }
  expect([await recordedUid(lab), lab.publisher.published.size]).toEqual(["mirror-1", 0]);
});

test("a sandbox that another process works on, or whose DEL has begun, is left alone", async () => {
  const lab = await attached();
  lab.records.locked.add(sandbox.containerId);
  expect(await lab.engine.adoptMirror(mirrorOf("mirror-2"), lab.conf)).toBe(false);
  expect(await lab.engine.adoptMirror(mirrorOf("mirror-1"), lab.conf)).toBe(true);
  lab.records.locked.clear();
  lab.records.beginDel(sandbox, new Date().toISOString());
  expect(await lab.engine.adoptMirror(mirrorOf("mirror-2"), lab.conf)).toBe(true);
  expect(await recordedUid(lab)).toBe("mirror-1");
});

test("another pod of that name is no mirror, also where the runtime names no UID, or no pod", async () => {
  const lab = await attached("default/web");
  const { [mirrorAnnotation]: _, ...annotations } = mirrorOf("other").annotations;
  const other = { ...mirrorOf("other"), annotations };
  expect(await lab.engine.adoptMirror(other, lab.conf)).toBe(true);
  const { record } = (await lab.records.load(sandbox))!;
  const unnamed = record.attachments.map((each) => ({ ...each, cniArgs: [] }));
  const changed = { ...record, attachments: unnamed };
  lab.records.put(changed, teardownPlan(changed, 60_000));
  expect(await lab.engine.adoptMirror(other, lab.conf)).toBe(true);
  expect([await recordedUid(lab), lab.publisher.published.size]).toEqual(["mirror-1", 0]);
});

test("a record that is removed meanwhile is no error", async () => {
  const lab = await attached();
  lab.records.lose(sandbox, "plan");
  expect(await lab.engine.adoptMirror(mirrorOf("mirror-2"), lab.conf)).toBe(true);
});

test("a status of a new mirror that cannot be recorded as published is logged", async () => {
  const lab = await attached();
  const err = new Error("no space left on device");
  lab.records.failWrite = { nth: lab.records.writeCount + 2, error: err };
  expect(await lab.engine.adoptMirror(mirrorOf("mirror-2"), lab.conf)).toBe(true);
  await new Promise(setImmediate);
  expect(lab.logger.lines.at(-1)).toMatchObject({
    level: "warn",
    message: "cannot publish the network-status, or record that it is published",
    fields: { err },
  });
});
