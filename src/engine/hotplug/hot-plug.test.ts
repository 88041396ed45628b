import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import type { EngineConfig } from "#engine/config.ts";
import { teardownPlan } from "#engine/del/planned-dels.ts";
import { noSandboxHosts } from "#engine/ports/empty-ports.ts";
import { SandboxUnavailableError } from "#engine/ports/sandbox-hosts.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import type { StoredRecord } from "#engine/record/teardown-plan.ts";
import { type EngineLab, netns, network, sandbox } from "#engine/testing/engine-lab.ts";
import { failed } from "#engine/testing/fake-plugins.ts";
import { web } from "#engine/testing/pod-lab.ts";
import {
  defaultNetworkAnnotation,
  networkStatusAnnotation,
  networksAnnotation,
} from "#npwg/selection/selection.ts";
import { problemsOf } from "./reports/outcome.ts";
import { type HotPlugLab, hotPlugLab } from "./testing/hot-plug-lab.ts";

const cannotChange = "cannot change the networks of a running pod";

test("hotPlug() plugs a network: record, plugin, record with result and status, status [H-22] [H-35] [H-36]", async () => {
  const pod = await hotPlugLab("a");
  expect(await pod.edit("a,b")).toMatchObject({
    state: "settled",
    operations: [{ op: "add", result: "success" }],
  });
  expect(pod.lab.journal).toEqual([
    "update c1@eth0",
    "macvlan ADD net2",
    "update c1@eth0",
    "publish default/web",
  ]);
  const [before, after] = pod.lab.records.writes.slice(-2).map(({ record }) => record);
  expect(before).toMatchObject({ addEnded: true });
  expect(before?.attachments[2]).toMatchObject({ state: "attempted" });
  expect(after?.attachments[2]).toMatchObject({ state: "attached", result: {} });
  expect(after).not.toHaveProperty("addEnded");
  expect(Object.keys(after?.pendingStatus ?? {})).toEqual([networkStatusAnnotation]);
  expect(await pod.recorded()).toEqual(["eth0 default-net", "net1 default/a", "net2 default/b"]);
  expect(pod.shown()).toEqual(await pod.recorded());
  expect(pod.newEvents()).toEqual(["AddedInterface: Add net2 [10.0.0.3/24] from default/b"]);
  expect(pod.lab.measured).toContain("macvlan ADD default/b ok");
});

test("hotPlug() publishes no status if the pod gets a newer sandbox while a plugin runs [H-33]", async () => {
  const pod = await hotPlugLab("a");
  const { records, publisher } = pod.lab;
  const before = publisher.published.get("default/web");
  const update = records.update.bind(records);
  records.update = async (record, plan) => {
    await update(record, plan);
    if (record.attachments[2]?.state !== "attempted") return;
    const newer = { ...record, containerId: "c2" };
    await records.create(newer, teardownPlan(newer, 60_000));
  };
  await pod.edit("a,b");
  expect(await pod.recorded()).toContain("net2 default/b");
  expect(publisher.published.get("default/web")).toBe(before);
});

test("hotPlug() calls plugins with the arguments of the sandbox's own ADD [H-22] [H-23]", async () => {
  const pod = await hotPlugLab("a");
  const [element] = [{ name: "b", ips: ["10.9.0.7/24"], mac: "02:00:00:00:00:07" }];
  pod.lab.source.addNad("default/b", {
    ...network("net-b"),
    plugins: [{ type: "macvlan", capabilities: { ips: true, mac: true } }],
  });
  await pod.edit([{ name: "a" }, element as object as never]);
  const [call] = pod.lab.plugins.of("macvlan", "ADD");
  expect(call).toMatchObject({ ...{ containerId: "c1", netns }, ifName: "net2" });
  expect(call?.env.CNI_ARGS).toContain("K8S_POD_NAME=web");
  expect(call?.conf.runtimeConfig).toEqual({ ips: ["10.9.0.7/24"], mac: "02:00:00:00:00:07" });
});

test("hotPlug() unplugs a network: mark, plugin, record without it, status [H-35] [H-36]", async () => {
  const pod = await hotPlugLab("a,b");
  await pod.edit("b");
  expect(pod.lab.journal).toEqual([
    "update c1@eth0",
    "bridge DEL net1",
    "update c1@eth0",
    "publish default/web",
  ]);
  expect(pod.lab.records.writes.at(-2)?.record.attachments[1]?.state).toBe("detaching");
  expect(await pod.recorded()).toEqual(["eth0 default-net", "net2 default/b"]);
  expect(pod.shown()).toEqual(await pod.recorded());
  expect(pod.lab.kernel.linkNames(netns)).toEqual(["eth0", "net2"]);
  expect(pod.newEvents()).toEqual(["RemovedInterface: Remove net1 from default/a"]);
});

test("hotPlug() leaves the device with which bandwidth limits another attachment of the network", async () => {
  const pod = await hotPlugLab("a");
  const shaping = { type: "bandwidth", capabilities: { bandwidth: true } };
  const shaped = { ...network("shaped"), plugins: [{ type: "bridge" }, shaping] };
  pod.lab.source.addNad("default/shaped", shaped);
  const limited = { name: "shaped", bandwidth: { egressRate: 8000, egressBurst: 8000 } };
  await pod.edit([{ name: "a" }, limited, { name: "shaped" }]);
  pod.lab.plugins.calls.length = 0;
  await pod.edit([{ name: "a" }, limited]);
  expect(pod.lab.plugins.log("DEL")).toEqual(["bridge DEL net3"]);
  expect(await pod.recorded()).toHaveLength(3);
  await pod.edit("a");
  expect(pod.lab.plugins.log("DEL").slice(1)).toEqual(["bandwidth DEL net2", "bridge DEL net2"]);
});

test("hotPlug() unplugs the last first, then plugs in the annotation's order [H-20] [H-27]", async () => {
  const pod = await hotPlugLab("a,b");
  await pod.edit("c@net9,c,a@x1");
  expect(pod.lab.plugins.log()).toEqual([
    ...["macvlan DEL net2", "bridge DEL net1"],
    ...["ipvlan ADD net9", "ipvlan ADD net1", "bridge ADD x1"],
  ]);
  expect(pod.shown()).toEqual(await pod.recorded());
});

test("hotPlug() gives the lowest free name and renumbers none [H-26]", async () => {
  const pod = await hotPlugLab("a,b,c");
  await pod.edit("a,c");
  expect(await pod.recorded()).toEqual(["eth0 default-net", "net1 default/a", "net3 default/c"]);
  pod.lab.kernel.addLink(netns, "net2");
  await pod.edit("b,c,a");
  expect((await pod.recorded()).at(-1)).toBe("net4 default/b");
});

test("hotPlug() leaves the others when a network cannot be plugged, and undoes it alone, as it was tried [H-9.4] [H-27]", async () => {
  const pod = await hotPlugLab("a");
  pod.lab.plugins.script("macvlan ADD", failed(117, "parent busy"));
  expect(await pod.edit("a,b,c")).toMatchObject({
    state: "failed",
    operations: [
      { op: "add", result: "error" },
      { op: "add", result: "success" },
    ],
  });
  expect(pod.lab.plugins.log()).toEqual([
    "macvlan ADD net2",
    "macvlan DEL net2",
    "ipvlan ADD net3",
  ]);
  const [add] = pod.lab.plugins.of("macvlan", "ADD");
  expect(pod.lab.plugins.of("macvlan", "DEL")[0]?.conf).toEqual(add?.conf);
  expect(await pod.recorded()).toEqual(["eth0 default-net", "net1 default/a", "net3 default/c"]);
  expect(pod.newEvents()[1]).toMatch(/^FailedAddingInterface: .*default\/b \(net2\).*parent busy/);
  pod.lab.plugins.unscript("macvlan ADD");
  expect(await pod.again()).toMatchObject({ state: "settled" });
  expect((await pod.recorded()).at(-1)).toBe("net2 default/b");
});

test("hotPlug() keeps record and status of a network that cannot be unplugged, and tries again [H-9.2] [H-9.5] [H-35]", async () => {
  const pod = await hotPlugLab("a@x1,b");
  pod.lab.plugins.script("bridge DEL", failed(117, "busy"));
  const outcome = await pod.edit("c@x1");
  expect(outcome.state).toBe("failed");
  expect(problemsOf(outcome)).toMatchObject([
    { network: "default/a", ifName: "x1", isRemoval: true, error: { code: 117 } },
    { network: "default/c", ifName: "x1", isRemoval: false, error: { code: 117 } },
  ]);
  expect(pod.lab.plugins.log()).toEqual(["macvlan DEL net2", "bridge DEL x1"]);
  expect(pod.shown()).toEqual(["eth0 default-net", "x1 default/a"]);
  expect(pod.newEvents()[1]).toMatch(/^FailedAddingInterface: .*default\/a \(x1\).*busy/);
  pod.lab.plugins.unscript("bridge DEL");
  expect(await pod.again()).toMatchObject({ state: "settled" });
  expect(pod.shown()).toEqual(["eth0 default-net", "x1 default/c"]);
});

test("hotPlug() calls nothing published when the publisher fails [H-35]", async () => {
  const pod = await hotPlugLab("a");
  pod.lab.publisher.shown = () => Promise.reject(new Error("input/output error"));
  const { operations } = await pod.edit("a,b");
  expect(await Promise.all(operations.map(({ published }) => published))).toEqual([false]);
});

test("hotPlug() leaves the status to the next process while this one ends [H-33]", async () => {
  const pod = await hotPlugLab("a");
  const [hosts, conf] = [pod.hosts, async () => pod.lab.conf];
  pod.state = { annotations: { "k8s.v1.cni.cncf.io/networks": "" } };
  const options = { hosts, conf, read: async () => pod.pod(), isEdit: true };
  await pod.lab.engine.hotPlug(pod.pod(), { ...options, isStopping: () => true });
  expect(await pod.recorded()).toEqual(["eth0 default-net"]);
  expect(pod.shown()).toEqual(["eth0 default-net", "net1 default/a"]);
  await pod.lab.publisher.compare(pod.pod());
  expect(pod.shown()).toEqual(await pod.recorded());
});

test("hotPlug() plugs a network into a sandbox that was attached with another boot ID, as by plexus-standalone on a node that is a container [H-33]", async () => {
  const pod = await hotPlugLab("a");
  pod.lab.bootId = "of-plexusd's-container";
  expect(await pod.edit("a,b")).toMatchObject({ state: "settled" });
  expect(await pod.recorded()).toEqual(["eth0 default-net", "net1 default/a", "net2 default/b"]);
});

test("hotPlug() compares nothing with an earlier sandbox while a newer one is attached, whatever the time is [H-33]", async () => {
  const pod = await hotPlugLab("a");
  const { records } = pod.lab;
  const earlier = (await records.load(sandbox))?.record as AttachmentRecord;
  const attachments = earlier.attachments.map((each) => ({ ...each, state: "attempted" as const }));
  const times = { createdAt: "2000-01-01T00:00:00Z", clockMs: earlier.clockMs + 1 };
  const newer = { ...earlier, ...times, containerId: "c2", attachments };
  await records.create(newer, teardownPlan(newer, 60_000));
  expect(await pod.again()).toMatchObject({ state: "failed" });
  expect(pod.newEvents()).toEqual([]);
});

test("hotPlug() shows the device information of a plugged device [H-9.7] [H-18] [H-31]", async () => {
  const devices = new Map([["vendor.example/nic", [{ id: "0000:01:00.1", source: "claim" }]]]);
  const deviceSources = [{ devicesOf: async () => devices }];
  const pod = await hotPlugLab("a", {}, { deviceSources });
  const resource = { "k8s.v1.cni.cncf.io/resourceName": "vendor.example/nic" };
  pod.lab.source.addNad("default/b", network("net-b", "host-device"), resource);
  expect(await pod.edit("a,b")).toMatchObject({ state: "settled" });
  expect(pod.lab.plugins.of("host-device", "ADD")[0]?.conf.deviceID).toBe("0000:01:00.1");
  // The pod has no other device.
  expect(await pod.edit("a,b,b")).toMatchObject({ state: "failed" });
  expect(pod.newEvents().at(-1)).toMatch(
    /^InterfaceAddRejected: .*default\/b.*vendor.example\/nic/,
  );
});

test("hotPlug() leaves to an engine what had a plugged device before [H-18]", async () => {
  const id = "0000:01:00.1";
  const devices = new Map([["vendor.example/nic", [{ id, source: "claim" }]]]);
  const pod = await hotPlugLab("a", {}, { deviceSources: [{ devicesOf: async () => devices }] });
  const resource = { "k8s.v1.cni.cncf.io/resourceName": "vendor.example/nic" };
  pod.lab.source.addNad("default/b", network("net-b", "host-device"), resource);
  const { records } = pod.lab;
  const own = (await records.load(sandbox))?.record as AttachmentRecord;
  const attachments = own.attachments.map((each) => ({
    ...each,
    conf: { ...each.conf, plugins: [{ type: "host-device", deviceID: id }] },
  }));
  const earlier = { name: "earlier", namespace: "default", uid: "u-earlier" };
  const other = { ...own, containerId: "c2", pod: earlier, attachments };
  await records.create(other, teardownPlan(other, 60_000));
  expect(await pod.edit("a,b")).toMatchObject({ state: "settled" });
  expect(records.engineOnly).toEqual(new Set(["c1@eth0", "c2@eth0"]));
});

interface Rejection {
  readonly why: string;
  readonly to: string;
  readonly event: RegExp;
  readonly config?: Partial<EngineConfig>;
}

const rejections: readonly Rejection[] = [
  { why: "is no JSON", to: '[{"name":"b"]', event: /not valid JSON/ },
  { why: "has an invalid value", to: '[{"name":"b","mac":"zz"}]', event: /element 1, key "mac"/ },
  {
    why: "names a forbidden one",
    to: "b,other/a",
    event: /other\/a/,
    config: { namespaceIsolation: true },
  },
  {
    why: "names one that attachmentPolicy does not permit",
    to: "b,sriov",
    event: /attachmentPolicy does not permit .* "sriov" is not one of/,
    config: { attachmentPolicy: ["bridge", "macvlan", "host-local"] },
  },
  { why: "needs a device", to: "b,sriov", event: /default\/sriov.*vendor.example\/vf/ },
  {
    why: "asks for the default route",
    to: '[{"name":"b","default-route":[]}]',
    event: /default\/b: a running pod keeps/,
  },
];

test.each(rejections)(
  "hotPlug() unplugs nothing for an annotation that $why, and says so once [H-13] [H-30] [H-31] [H-37] [S-307] [S-404]",
  async ({ to, event, config = {} }) => {
    const pod = await hotPlugLab("a", {}, { config });
    const resource = { "k8s.v1.cni.cncf.io/resourceName": "vendor.example/vf" };
    pod.lab.source.addNad("default/sriov", network("net-s", "sriov"), resource);
    pod.lab.source.addNad("other/a", network("net-o", "bridge"));
    await pod.edit(to);
    const rejected = pod.newEvents().filter((text) => text.startsWith("InterfaceAddRejected"));
    expect(rejected).toEqual([expect.stringMatching(event)]);
    expect(pod.lab.plugins.log("DEL")).toEqual([]);
    expect(await pod.recorded()).toContain("net1 default/a");
    await pod.again();
    expect(pod.newEvents()).toEqual([]);
    expect(await pod.edit("a")).toMatchObject({ state: "settled" });
    expect(await pod.recorded()).toEqual(["eth0 default-net", "net1 default/a"]);
    pod.lab.events.recorded.length = 0;
    await pod.edit(to);
    expect(pod.newEvents()).toContainEqual(expect.stringMatching(event));
  },
);

test("a rejected edit detaches what an interrupted attempt left, except what it still requests", async () => {
  const pod = await hotPlugLab("a,b,c");
  const { record, plan } = (await pod.lab.records.load(sandbox)) as StoredRecord;
  const attachments = record.attachments.map((each, i) =>
    i === 0 ? each : { ...each, state: "detaching" as const },
  );
  await pod.lab.records.update({ ...record, addEnded: true, attachments }, plan);
  expect(await pod.edit("a,c,nope")).toMatchObject({ state: "failed" });
  expect(pod.lab.plugins.log()).toEqual(["macvlan DEL net2"]);
  expect(await pod.recorded()).toEqual(["eth0 default-net", "net1 default/a", "net3 default/c"]);
  expect(await pod.edit("a,c")).toMatchObject({ state: "settled" });
  expect(pod.shown()).toEqual(["eth0 default-net", "net1 default/a", "net3 default/c"]);
});

test.each([
  { pod: "is terminating", state: { isTerminating: true }, outcome: "settled" },
  { pod: "does not run", state: { phase: "Pending" }, outcome: "waiting" },
  { pod: "is gone", state: undefined, outcome: "settled" },
  { pod: "was replaced", state: { uid: "uid-2" }, outcome: "failed" },
] as const)("hotPlug() changes nothing while the pod $pod [H-3] [H-31]", async (scene) => {
  const { lab, hosts, pod, newEvents } = await hotPlugLab("a");
  const annotations = { [networksAnnotation]: "b" };
  const live = scene.state && { ...pod(), annotations, ...scene.state };
  const options = { hosts, conf: async () => lab.conf, read: async () => live, isEdit: true };
  const outcome = await lab.engine.hotPlug({ ...pod(), annotations, ...scene.state }, options);
  expect(outcome).toEqual({ state: scene.outcome, operations: [] });
  expect([newEvents(), lab.journal]).toEqual([[], []]);
});

test("hotPlug() says that a pod with the network of its node keeps that [H-31]", async () => {
  const pod = await hotPlugLab("a");
  pod.state = { hostNetwork: true };
  const { state, problems } = await pod.edit("b");
  expect(state).toBe("settled");
  const why = expect.stringMatching(/^the pod uses the network of its node/);
  expect(problems).toMatchObject([{ error: { message: why } }]);
  expect(pod.newEvents()).toEqual([`InterfaceAddRejected: ${problems?.[0]?.error.message}`]);
  expect(pod.lab.journal).toEqual([]);
});

test.each([
  { config: { hotPlug: false }, changes: false },
  { config: { hotPlug: ["vms"] }, changes: false },
  { config: { hotPlug: ["vms", "default"] }, changes: true },
])("hotPlug() obeys the configuration $config [H-38] [S-307]", async ({ config, changes }) => {
  const pod = await hotPlugLab("a");
  pod.lab.config = { ...pod.lab.config, ...config };
  expect(await pod.edit("b")).toMatchObject({ state: "settled" });
  expect((await pod.recorded()).includes("net1 default/b")).toBe(changes);
});

test("hotPlug() says once that it does not manage a pod that Plexus did not attach [H-24]", async () => {
  const pod = await hotPlugLab("a");
  // As one that Multus attached before.
  pod.state = { uid: "uid-2" };
  expect(await pod.edit("b")).toMatchObject({ state: "failed" });
  expect(pod.newEvents()).toEqual([]);
  pod.lab.advance(30_000);
  for (const attempt of [pod.again(), pod.again()])
    expect(await attempt).toMatchObject({ state: "waiting" });
  expect(pod.newEvents()).toEqual([expect.stringMatching(/^NotManaged: .*delete the pod/)]);
  expect(pod.lab.journal).toEqual([]);
});

test("hotPlug() waits for a record another 30 seconds each time that it is gone", async () => {
  const pod = await hotPlugLab("a");
  const { records } = pod.lab;
  const list = records.list.bind(records);
  pod.hosts.refusal = new SandboxUnavailableError("busy", "no");
  pod.lab.advance(100_000);
  for (const _ of [1, 2]) {
    records.list = async () => ({ records: [], damaged: [] });
    expect(await pod.edit("b")).toEqual({ state: "failed", operations: [] });
    records.list = list;
    expect(await pod.again()).toMatchObject({ state: "busy" });
    pod.lab.advance(30_000);
  }
  expect(pod.newEvents().join()).not.toMatch(/NotManaged/);
});

test.each([
  { what: "a pod that has what it requests", state: {}, outcome: "settled" },
  { what: "a pod without a record, before an edit", state: { uid: "uid-2" }, outcome: "waiting" },
])("hotPlug() does not ask the API server about $what [H-9.1]", async ({ state, outcome }) => {
  const { lab, hosts, pod } = await hotPlugLab("a");
  const read = async () => expect.unreachable();
  const options = { hosts, conf: async () => lab.conf, read, isEdit: false };
  const result = await lab.engine.hotPlug({ ...pod(), ...state }, options);
  expect(result).toEqual({ state: outcome, operations: [] });
});

test("hotPlug() carries out an edit that was made before this process started", async () => {
  const { lab, hosts, pod, shown } = await hotPlugLab("a");
  const edited = { ...pod(), annotations: { [networksAnnotation]: "b" } };
  const options = { hosts, conf: async () => lab.conf, read: async () => edited, isEdit: false };
  const { state, operations } = await lab.engine.hotPlug(edited, options);
  expect(state).toBe("settled");
  await Promise.all(operations.map(({ published }) => published));
  expect(shown()).toEqual(["eth0 default-net", "net1 default/b"]);
});

test("hotPlug() without an agent says once what to install", async () => {
  const pod = await hotPlugLab("a");
  const options = { hosts: noSandboxHosts, conf: async () => pod.lab.conf, isEdit: true };
  pod.state = { annotations: { [networksAnnotation]: "b" } };
  for (const _ of [1, 2]) {
    const attempt = pod.lab.engine.hotPlug(pod.pod(), { ...options, read: async () => pod.pod() });
    expect(await attempt).toMatchObject({ state: "failed" });
  }
  expect(pod.newEvents()).toEqual([
    expect.stringMatching(/InterfaceAddRejected: .*agent --attach/),
  ]);
  expect(pod.lab.journal).toEqual([]);
});

test.each([
  { why: "busy", state: "busy" },
  { why: "gone", state: "failed" },
] as const)("hotPlug() tries again while the sandbox is $why [H-32] [H-33]", async (scene) => {
  const pod = await hotPlugLab("a");
  pod.hosts.refusal = new SandboxUnavailableError(scene.why, "no");
  expect(await pod.edit("b")).toMatchObject({ state: scene.state, operations: [] });
  expect([pod.lab.journal, pod.newEvents()]).toEqual([[], []]);
});

test.each([
  {
    what: "its DEL has begun",
    change: ({ records }) => records.beginDel(sandbox, "2026-01-01T00:00:00Z"),
  },
  { what: "it was detached", change: ({ records }) => records.remove(sandbox) },
  {
    what: "the pod has a newer one",
    change: async ({ records }) => {
      const own = (await records.load(sandbox))?.record as AttachmentRecord;
      const newer = { ...own, containerId: "c2", clockMs: own.clockMs + 1 };
      await records.create(newer, teardownPlan(newer, 60_000));
    },
  },
] satisfies { what: string; change: (lab: EngineLab) => unknown }[])(
  "hotPlug() changes nothing of a sandbox of which $what while the agent opens it [H-32] [H-33]",
  async ({ change }) => {
    const pod = await hotPlugLab("a");
    const open = pod.hosts.open.bind(pod.hosts);
    pod.hosts.open = async (opened) => {
      await change(pod.lab);
      pod.lab.journal.length = 0;
      return open(opened);
    };
    expect(await pod.edit("b")).toMatchObject({ state: "failed", operations: [] });
    expect([pod.lab.journal, pod.newEvents()]).toEqual([[], []]);
  },
);

test.each([
  {
    why: "the agent refuses the sandbox",
    code: 5,
    events: [
      expect.stringMatching(
        /^InterfaceAddRejected: no lock; the pod keeps its networks; Plexus tries again/,
      ),
    ],
  },
  { why: "a definition cannot be read at the moment", code: 11, events: [] },
])("hotPlug() tries again if $why", async ({ code, events }) => {
  const pod = await hotPlugLab("a");
  pod.hosts.refusal = new CniError(code, "no lock");
  for (const attempt of [pod.edit("b"), pod.again()]) {
    expect(await attempt).toMatchObject({
      state: "failed",
      problems: [{ error: { message: "no lock" } }],
    });
  }
  expect([pod.newEvents(), pod.lab.journal]).toEqual([events, []]);
  const logged = { containerId: "c1", err: { message: "no lock" } };
  expect(pod.lab.logger.lines.filter(({ level }) => level === "warn")).toMatchObject(
    Array(2).fill({ message: cannotChange, fields: logged }),
  );
});

test("hotPlug() uses the live annotation, not the watch's old one [H-33]", async () => {
  const pod = await hotPlugLab("a,b");
  const [hosts, conf] = [pod.hosts, async () => pod.lab.conf];
  pod.state = { annotations: { "k8s.v1.cni.cncf.io/networks": "a" } };
  const live = { ...pod.pod(), annotations: { "k8s.v1.cni.cncf.io/networks": "a,b" } };
  const options = { hosts, conf, read: async () => live, isEdit: true };
  expect((await pod.lab.engine.hotPlug(pod.pod(), options)).state).toBe("settled");
  expect(pod.lab.journal).toEqual([]);
});

test.each([
  { to: "other", why: "create the pod again to attach it to kube-system/other" },
  { to: "[{", why: "default network annotation is invalid: not valid JSON.*" },
])("an edit of the default-network annotation to $to is only reported [H-29]", async (edit) => {
  const pod = await hotPlugLab("a");
  const { annotations } = pod.pod();
  pod.state = { annotations: { ...annotations, [defaultNetworkAnnotation]: edit.to } };
  for (const attempt of [pod.again(), pod.again()])
    expect(await attempt).toEqual({ state: "settled", operations: [] });
  const keeps = "keeps its default network default-net";
  expect(pod.newEvents()).toEqual([
    expect.stringMatching(new RegExp(`^AnnotationChanged: .*${keeps}: ${edit.why}$`)),
  ]);
  expect([pod.lab.journal, pod.hosts.opened]).toEqual([[], []]);
  const networks = { [networksAnnotation]: "a,b" };
  pod.state = { annotations: { ...pod.state.annotations, ...networks } };
  expect(await pod.again()).toMatchObject({ state: "settled" });
  expect(pod.shown()).toContain("net2 default/b");
  pod.newEvents();
  pod.state = { annotations: { [networksAnnotation]: "a" } };
  expect(await pod.again()).toMatchObject({ state: "settled" });
  expect(pod.newEvents()).toEqual(["RemovedInterface: Remove net2 from default/b"]);
});

test("hotPlug() unplugs what was attached while hot-plug was off, and outdated then [H-28] [H-30]", async () => {
  const pod = await hotPlugLab("a,b", {}, { config: { hotPlug: false } });
  expect(await pod.edit("b")).toEqual({ state: "settled", operations: [] });
  pod.lab.source.addNad("default/a", network("net-a", "vlan"));
  expect(await pod.lab.engine.countOutdated(pod.lab.conf)).toBe(1);
  pod.lab.config = { hotPlug: true };
  await pod.again();
  expect(await pod.recorded()).toEqual(["eth0 default-net", "net2 default/b"]);
});

test("DEL detaches what was plugged, and nothing of what was unplugged [H-12] [H-32]", async () => {
  const pod = await hotPlugLab("a,b");
  await pod.edit("b,c");
  pod.lab.plugins.calls.length = 0;
  expect(await pod.lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(pod.lab.plugins.log()).toEqual(["ipvlan DEL net1", "macvlan DEL net2", "ptp DEL eth0"]);
  expect(pod.lab.records.keys).toEqual([]);
});

test("GC names plugged interfaces of valid sandboxes to their plugins [H-34]", async () => {
  const pod = await hotPlugLab("a");
  pod.lab.source.addNad("default/gc", { ...network("net-gc", "vlan"), cniVersion: "1.1.0" });
  await pod.edit("a,gc");
  expect(await pod.lab.gc(["c1"])).toMatchObject({ exitCode: 0 });
  const [call] = pod.lab.plugins.of("vlan", "GC");
  expect(call?.conf["cni.dev/valid-attachments"]).toEqual([{ containerID: "c1", ifname: "net2" }]);
});

test("CHECK verifies a plugged interface", async () => {
  const pod = await hotPlugLab("a");
  await pod.edit("a,b");
  expect(await pod.lab.check(web)).toMatchObject({ exitCode: 0 });
  pod.lab.kernel.removeLink(netns, "net2");
  expect((await pod.lab.check(web)).json.msg).toMatch(/net2.*is gone/);
});

/** What the agent is asked to do for an edit, if it does not disconnect. */
async function ordersOf(edit: (pod: HotPlugLab) => Promise<unknown>): Promise<number> {
  const pod = await hotPlugLab("a,b");
  await edit(pod);
  return pod.hosts.orders;
}

const swap = (pod: HotPlugLab): Promise<unknown> => pod.edit("b,c,a@x1");

test("hotPlug() continues when the agent disconnected at any order, and nothing leaks [H-32] [H-41]", async () => {
  const orders = await ordersOf(swap);
  expect(orders).toBeGreaterThan(4);
  for (let goesAt = 0; goesAt < orders; goesAt++) {
    const pod = await hotPlugLab("a,b");
    pod.hosts.goesAt = goesAt;
    pod.newEvents();
    const outcome = (await swap(pod)) as { state: string };
    expect(pod.newEvents().join()).not.toMatch(/Failed|Rejected/);
    expect(pod.lab.logger.at("warn")).not.toContain(cannotChange);
    pod.hosts.goesAt = Number.POSITIVE_INFINITY;
    if (outcome.state !== "settled") expect(await pod.again()).toMatchObject({ state: "settled" });
    const expected = ["eth0 default-net", "net1 default/c", "net2 default/b", "x1 default/a"];
    expect((await pod.recorded()).toSorted()).toEqual(expected);
    expect(pod.shown().toSorted()).toEqual(expected);
    expect(pod.lab.kernel.linkNames(netns).toSorted()).toEqual(["eth0", "net1", "net2", "x1"]);
    await pod.lab.del(web);
    expect([pod.lab.records.keys, pod.lab.kernel.linkNames(netns)]).toEqual([[], []]);
  }
});

test("hotPlug() continues after any write of the record that failed, also if the agent disconnects then, and nothing leaks [H-32] [H-41]", async () => {
  const pod = await hotPlugLab("a,b");
  const before = pod.lab.records.writes.length;
  await swap(pod);
  const writes = pod.lab.records.writes.length - before;
  expect(writes).toBeGreaterThan(5);
  const { orders } = pod.hosts;
  for (let nth = before + 1; nth <= before + writes; nth++) {
    for (let goesAt = 1; goesAt <= orders; goesAt++) {
      const own = await hotPlugLab("a,b");
      own.lab.records.failWrite = { nth, error: new Error("no space left") };
      own.hosts.goesAt = goesAt;
      await swap(own);
      own.hosts.goesAt = Number.POSITIVE_INFINITY;
      await own.again();
      expect(await own.again()).toMatchObject({ state: "settled" });
      const recorded = await own.attachments();
      const networks = recorded.map(({ displayName }) => displayName).toSorted();
      expect(networks).toEqual(["default-net", "default/a", "default/b", "default/c"]);
      const names = recorded.map(({ ifName }) => ifName).toSorted();
      expect(own.lab.kernel.linkNames(netns).toSorted()).toEqual(names);
      expect(own.shown()).toEqual(await own.recorded());
      await own.lab.del(web);
      expect([own.lab.records.keys, own.lab.kernel.linkNames(netns)]).toEqual([[], []]);
    }
  }
});

test.each<[string, (pod: HotPlugLab) => Promise<unknown>]>([
  [
    "a container that Plexus does not know",
    async ({ lab }) => {
      lab.kernel.removeNamespace(netns);
      lab.kernel.addNamespace(netns);
      for (const name of ["eth0", "net1"]) {
        lab.kernel.addLink(netns, name, ["10.99.0.9/24"]);
        lab.kernel.setMac(netns, name, "02:00:00:00:00:99");
      }
    },
  ],
  [
    "a later sandbox",
    ({ lab }) => lab.add({ env: { CNI_CONTAINERID: "c2", PLEXUS_LINKS: "lo/" } }),
  ],
])("hotPlug() changes nothing in the namespace of %s at the same path", async (_, useAgain) => {
  const pod = await hotPlugLab("a");
  await useAgain(pod);
  pod.lab.plugins.calls.length = 0;
  expect(await pod.edit("b")).toMatchObject({ state: "failed" });
  expect(pod.lab.plugins.log()).toEqual([]);
  expect(await pod.recorded()).toEqual(["eth0 default-net", "net1 default/a"]);
});

test("a damaged record of another pod, which may have the namespace, is stated until it is gone", async () => {
  const pod = await hotPlugLab("a");
  const { records, engine } = pod.lab;
  const { record } = (await records.load(sandbox)) as StoredRecord;
  const other = { ...record, containerId: "c2", pod: { ...pod.pod(), name: "other" } };
  await records.create(other, teardownPlan(other, 60_000));
  records.damage({ containerId: "c2", ifName: "eth0" }, "record");
  const found = () => engine.findings.of(pod.pod()).map(({ message }) => message);
  expect(await pod.edit("a,b")).toMatchObject({ state: "failed" });
  expect(found()).toContainEqual(expect.stringMatching(/another record.* cannot be used/));
  await records.remove({ containerId: "c2", ifName: "eth0" });
  expect(await pod.again()).toMatchObject({ state: "settled" });
  expect(found()).toEqual([]);
});

test("hotPlug() serves a pod whose interfaces have other MAC addresses than reported, and says so", async () => {
  const pod = await hotPlugLab("a");
  for (const name of ["eth0", "net1"]) pod.lab.kernel.setMac(netns, name, "02:00:00:00:00:99");
  pod.newEvents();
  await pod.edit("a,b");
  expect(await pod.recorded()).toEqual(["eth0 default-net", "net1 default/a", "net2 default/b"]);
  expect(pod.newEvents()).toContainEqual(
    expect.stringMatching(/^NotManaged: no interface of the pod has the MAC address/),
  );
});

test("an interrupted hot-plug operation does not make the sandbox a leftover", async () => {
  const pod = await hotPlugLab("a", {}, { leftoverDuty: "daemon" });
  // The plugin's ADD, after its executable was looked up, the path was checked, and routes read.
  pod.hosts.goesAt = 7;
  expect(await pod.edit("a,b")).toMatchObject({ state: "failed" });
  expect((await pod.attachments()).at(-1)).toMatchObject({ state: "attempted" });
  pod.lab.advance(3_600_000);
  expect(await pod.lab.engine.countLeftovers()).toBe(0);
});
