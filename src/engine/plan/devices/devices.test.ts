import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import type { DeviceSource } from "#engine/ports/devices.ts";
import {
  EngineLab,
  expectError,
  type LabOptions,
  netns,
  network,
} from "#engine/testing/engine-lab.ts";
import { FakeDevices } from "#engine/testing/fake-devices.ts";
import { failed } from "#engine/testing/fake-plugins.ts";
import type { JsonObject } from "#lib/json.ts";
import { podAnnotationsCapability } from "#npwg/object-meta.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";

const web = { pod: "default/web" };
const vf = "vendor.example/vf";
const needs = (resource: string) => ({ "k8s.v1.cni.cncf.io/resourceName": resource });
const pci = (n: number): string => `0000:03:02.${n}`;
const plugins = (...list: JsonObject[]): JsonObject => ({ ...network("net"), plugins: list });
const deviceInfoDir = "/var/run/k8s.cni.cncf.io/devinfo";
const dpFile = `${deviceInfoDir}/dp/vendor.example-vf-${pci(1)}-device.json`;
const cniFile = `${deviceInfoDir}/cni/plexus-c1@net1.json`;
const info = { type: "pci", version: "1.1.0", pci: { "pci-address": pci(1) } };

/** The pod `web` that asks for these networks; `sriov` and `other` need a VF each, `plain` needs nothing. */
function labWith(networks: string, devices: FakeDevices[], options: LabOptions = {}): EngineLab {
  const lab = new EngineLab({ deviceSources: devices, ...options });
  lab.source.addNad("default/sriov", network("net-s", "sriov"), needs(vf));
  lab.source.addNad("default/other", network("net-o", "macvtap"), needs(vf));
  lab.source.addNad("default/plain", network("net-p", "bridge"));
  lab.source.addPod({ name: "web", annotations: { [networksAnnotation]: networks } });
  return lab;
}

/** The device in the configuration of each ADD, by interface. */
function devicesOf(lab: EngineLab): Record<string, unknown> {
  const adds = lab.plugins.calls.filter(({ command }) => command === "ADD");
  return Object.fromEntries(adds.map(({ ifName, conf }) => [ifName, conf.deviceID]));
}

test("add() gives each network that needs a device the next one of its resource, across definitions [D-1] [D-3]", async () => {
  const kubelet = new FakeDevices().allocate(vf, pci(1), pci(2), pci(3));
  const lab = labWith("sriov,plain,other,sriov", [kubelet]);
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(devicesOf(lab)).toEqual({
    eth0: undefined,
    net1: pci(1),
    net2: undefined,
    net3: pci(2),
    net4: pci(3),
  });
  expect(kubelet.lookups).toHaveLength(1);
  expect(kubelet.lookups[0]).toMatchObject({
    pod: { namespace: "default", name: "web", uid: "uid-1" },
    networks: [{ displayName: "default/sriov" }, { resourceName: vf }, { selection: {} }],
  });
});

test("add() gives the first device to a cluster default network that needs one [D-3]", async () => {
  const kubelet = new FakeDevices().allocate(vf, pci(1), pci(2));
  const conf = { clusterNetwork: "main" };
  const lab = labWith("sriov", [kubelet], { conf });
  lab.source.addNad("kube-system/main", network("main", "ptp"), needs(vf));
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(devicesOf(lab)).toEqual({ eth0: pci(1), net1: pci(2) });
});

test("add() queries no device source if no network needs a device", async () => {
  const kubelet = new FakeDevices();
  const lab = labWith("plain", [kubelet]);
  await lab.add(web);
  expect(kubelet.lookups).toEqual([]);
  expect(lab.source.asked).not.toContain("object default/web");
});

test("add() passes every plugin the device as deviceID, pciBusID and runtimeConfig, over the definition's [D-4]", async () => {
  const kubelet = new FakeDevices().allocate(vf, pci(1));
  const lab = labWith("list", [kubelet]);
  const capabilities = { deviceID: true };
  const conf = plugins({ type: "sriov", deviceID: "stale", capabilities }, { type: "tuning" });
  lab.source.addNad("default/list", conf, needs(vf));
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  const own = { deviceID: pci(1), pciBusID: pci(1) };
  expect(lab.plugins.of("sriov", "ADD")[0]?.conf).toMatchObject({
    ...own,
    runtimeConfig: { deviceID: pci(1) },
  });
  expect(lab.plugins.of("tuning", "ADD")[0]?.conf).toMatchObject(own);
  expect(lab.plugins.of("tuning", "ADD")[0]?.conf).not.toHaveProperty("runtimeConfig");
});

test.each([
  [pci(1), pci(1)],
  ...["eth5", "eth0Mvp3", "0000:03:02.8", "vdpa0", "mlx5_core.sf.2"].map((id) => [id, undefined]),
  ...[`${pci(1)}.2`, `vdpa-${pci(1)}`].map((id) => [id, undefined]),
])("a single configuration gets device %s, with the pciBusID %s [D-4] [D-17]", async (...ids) => {
  const lab = labWith("single", [new FakeDevices().allocate(vf, ids[0] ?? "")]);
  lab.source.addNad("default/single", { cniVersion: "1.0.0", type: "sriov" }, needs(vf));
  await lab.add(web);
  const { conf } = lab.plugins.of("sriov", "ADD")[0]!;
  expect([conf.deviceID, conf.pciBusID]).toEqual(ids);
});

test("DEL, CHECK and GC use the recorded device and query no device source [D-6]", async () => {
  const kubelet = new FakeDevices().allocate(vf, pci(1));
  const lab = labWith("sriov", [kubelet], { config: { checkDelegates: "all" } });
  await lab.add(web);
  expect(lab.records.writes.at(-1)?.record.attachments[1]?.device).toEqual({
    id: pci(1),
    resourceName: vf,
    source: "the kubelet",
  });
  kubelet.failure = new Error("the kubelet is unavailable");
  kubelet.lookups.length = 0;
  expect(await lab.check(web)).toMatchObject({ exitCode: 0 });
  lab.kernel.removeNamespace(netns);
  expect(await lab.gc([])).toMatchObject({ exitCode: 0 });
  for (const command of ["CHECK", "DEL"]) {
    expect(lab.plugins.of("sriov", command)[0]?.conf).toMatchObject({ deviceID: pci(1) });
  }
  expect(kubelet.lookups).toEqual([]);
});

test.each([
  ["no devices", []],
  ["fewer devices than networks", [pci(1)]],
])(
  "a pod with %s is not attached; the error says what to do, and what it has [D-5]",
  async (_, ids) => {
    const kubelet = new FakeDevices().allocate(vf, ...ids).allocate("vendor.example/third", "c");
    const lab = labWith("sriov,third,other", [kubelet]);
    lab.source.addNad("default/third", network("net-t", "macvtap"), needs("vendor.example/third"));
    const { exitCode, json } = await lab.add(web);
    expect([exitCode, json.code]).toEqual([1, 100]);
    const missing = ids.length === 0 ? "default/sriov" : "default/other";
    const own = ids.map((id) => `${id} (${vf}); `).join("");
    for (const part of [
      `network ${missing}:`,
      `resource ${vf}, but the pod was allocated ${ids.length} of the 2 that its networks need`,
      `resources.limits: ${vf}: "2"`,
      `; the pod has ${own}c (vendor.example/third)`,
    ])
      expect(json.msg).toContain(part);
    expect(lab.journal).toEqual([]);
    expect(lab.events.reasons).toEqual(["DeviceNotAllocated"]);
  },
);

test("strictness: multus attaches without the device, as Multus does, with a warning and an event [D-5]", async () => {
  const options: LabOptions = { config: { strictness: "multus" } };
  const lab = labWith("sriov", [new FakeDevices()], options);
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.of("sriov", "ADD")[0]?.conf).not.toHaveProperty("deviceID");
  expect(lab.logger.at("warn")).toEqual([expect.stringContaining("was allocated 0")]);
  expect(lab.events.reasons).toContain("DeviceNotAllocated");
});

test("strictness: multus makes no event for a sandbox that is no pod", async () => {
  const config = { strictness: "multus" } as const;
  const lab = new EngineLab({ conf: { clusterNetwork: "main" }, config });
  lab.source.addNad("kube-system/main", network("main", "sriov"), needs(vf));
  expect(await lab.add()).toMatchObject({ exitCode: 0 });
  expect(lab.logger.at("warn")).toEqual([expect.stringContaining("was allocated 0")]);
  expect(lab.events.recorded).toEqual([]);
});

test.each([
  "bridge.network.kubevirt.io/br1",
  "ovs-cni.network.kubevirt.io/br1",
  "networks.plexus.dev/default.storage",
])("a network with the marker %s needs no device of a source [D-5] [D-35]", async (marker) => {
  const kubelet = new FakeDevices().allocate(marker, "marker-0");
  const lab = labWith("marked,plain", [kubelet]);
  lab.source.addNad("default/marked", network("net-m", "bridge"), needs(marker));
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(devicesOf(lab)).toEqual({ eth0: undefined, net1: undefined, net2: undefined });
  expect(kubelet.lookups).toEqual([]);
  expect(lab.events.reasons).not.toContain("DeviceNotAllocated");
});

test("a marker beside a network with a device takes none, and the device still has to exist [D-5] [D-35]", async () => {
  const marker = "bridge.network.kubevirt.io/br1";
  const kubelet = new FakeDevices();
  const lab = labWith("marked,sriov", [kubelet]);
  lab.source.addNad("default/marked", network("net-m", "bridge"), needs(marker));
  expectError(
    await lab.add(web),
    100,
    /default\/sriov.*if it has no devices, add it to markerResources/,
  );
  kubelet.allocate(vf, pci(1));
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(devicesOf(lab)).toMatchObject({ net1: undefined, net2: pci(1) });
  expect(kubelet.lookups.at(-1)?.networks).toMatchObject([{ displayName: "default/sriov" }]);
});

test.each([
  ["vendor.example/vf", true],
  ["vendor.example/*", true],
  ["vendor.example/v*", true],
  ["vendor.example/v", false],
  ["*.example/vf", false],
  ["vendor.other/*", false],
  ["Vendor.example/vf", false],
])("markerResources: %s includes vendor.example/vf: %s [D-35]", async (pattern, isMarker) => {
  const lab = labWith("sriov", [new FakeDevices()], { config: { markerResources: [pattern] } });
  expect(await lab.add(web)).toMatchObject({ exitCode: isMarker ? 0 : 1 });
});

test("markerResources replaces the default list [D-35]", async () => {
  const lab = labWith("marked", [new FakeDevices()], { config: { markerResources: [] } });
  const ovs = network("net-m", "ovs");
  lab.source.addNad("default/marked", ovs, needs("ovs-cni.network.kubevirt.io/br1"));
  expect((await lab.add(web)).json).toMatchObject({ code: 100 });
});

test("resources that plexusd counts have no devices, whatever markerResources lists [D-35]", async () => {
  const lab = labWith("marked", [new FakeDevices()], { config: { markerResources: [] } });
  const ovs = network("net-m", "ovs");
  lab.source.addNad("default/marked", ovs, needs("networks.plexus.dev/default.marked"));
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
});

test.each([["macvlan", "tuning"], ["loopback"]])(
  "a network of plugins that ignore devices is attached without one, and with one that the pod has: %s %s [D-5]",
  async (...types) => {
    const kubelet = new FakeDevices();
    const lab = labWith("placed,placed", [kubelet]);
    lab.source.addNad("default/placed", plugins(...types.map((type) => ({ type }))), needs(vf));
    expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
    expect(devicesOf(lab)).toMatchObject({ net1: undefined, net2: undefined });
    expect(lab.events.reasons).not.toContain("DeviceNotAllocated");
    await lab.del(web);
    lab.plugins.calls.length = 0;
    kubelet.allocate(vf, pci(1));
    expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
    expect(devicesOf(lab)).toMatchObject({ net1: pci(1), net2: undefined });
  },
);

test.each(["sriov", "host-device", "vendor-net"])(
  "a resource without any device, as while its device plugin restarts, fails the ADD of a chain with %s [D-5]",
  async (type) => {
    const lab = labWith("chained", [new FakeDevices()]);
    lab.source.addNad("default/chained", plugins({ type: "macvlan" }, { type }), needs(vf));
    expectError(await lab.add(web), 100, /default\/chained.*was allocated 0 of the 1/);
    expect(lab.journal).toEqual([]);
  },
);

test("add() fails for a sandbox without a pod if its network needs a device [D-5]", async () => {
  const lab = new EngineLab({
    conf: { clusterNetwork: "main" },
    deviceSources: [new FakeDevices().allocate(vf, pci(1))],
  });
  lab.source.addNad("kube-system/main", network("main", "sriov"), needs(vf));
  expect((await lab.add()).json).toMatchObject({ code: 100 });
});

const asking = (name: string, deviceID: string): string => JSON.stringify([{ name, deviceID }]);

test("a device in the annotation is used if the pod was allocated it, and other networks get the rest [D-4]", async () => {
  const annotation = JSON.stringify([{ name: "sriov" }, { name: "other", deviceID: pci(1) }]);
  const lab = labWith(annotation, [new FakeDevices().allocate(vf, pci(1), pci(2))]);
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(devicesOf(lab)).toMatchObject({ net1: pci(2), net2: pci(1) });
});

const another = "which the pod was not allocated, or which another of its networks has";
const hasThree = `${pci(1)} (${vf}); ${pci(2)} (${vf}); eth5 (a.example/b)`;
const noSuch = (network: string, device: string, has = hasThree): string =>
  `network default/${network}: the pod's annotation asks for the device ${device}, ${another}; the pod has ${has}`;

test.each([
  ["of another pod", asking("sriov", pci(7)), noSuch("sriov", `"${pci(7)}" of resource ${vf}`)],
  ["of another resource", asking("sriov", "eth5"), noSuch("sriov", `"eth5" of resource ${vf}`)],
  [
    "of another pod, for a definition that needs none",
    asking("plain", pci(7)),
    noSuch("plain", `"${pci(7)}"`),
  ],
  [
    "that another of its networks has",
    JSON.stringify([
      { name: "sriov", deviceID: pci(1) },
      { name: "other", deviceID: pci(1) },
    ]),
    noSuch("other", `"${pci(1)}" of resource ${vf}`),
  ],
])("a pod cannot request a device %s [D-4] [S-306]", async (_, annotation, msg) => {
  const kubelet = new FakeDevices().allocate(vf, pci(1), pci(2)).allocate("a.example/b", "eth5");
  const lab = labWith(annotation, [kubelet], { config: { strictness: "multus" } });
  expect((await lab.add(web)).json).toMatchObject({ code: 100, msg });
  expect(lab.journal).toEqual([]);
});

test("a pod may request a device of any of its resources for a definition without a resource [D-4]", async () => {
  const lab = labWith(asking("plain", "eth5"), [new FakeDevices().allocate("a.example/b", "eth5")]);
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(devicesOf(lab)).toMatchObject({ net1: "eth5" });
});

test("without a device source, the annotation's device is used, and a needed resource fails the ADD", async () => {
  const lab = labWith(asking("sriov", pci(7)), []);
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(devicesOf(lab)).toMatchObject({ net1: pci(7) });
  expect((await labWith("sriov", []).add(web)).json).toMatchObject({ code: 100 });
});

test("devices of different resources may come from different sources, those of one may not [D-27]", async () => {
  const [kubelet, dra] = [new FakeDevices(), new FakeDevices("a resource claim")];
  kubelet.allocate(vf, pci(1));
  dra.allocate("dra.example/nic", "eth5").allocate(vf);
  const lab = labWith("sriov,claimed", [kubelet, dra]);
  lab.source.addNad("default/claimed", network("net-c", "macvtap"), needs("dra.example/nic"));
  await lab.add(web);
  expect(devicesOf(lab)).toMatchObject({ net1: pci(1), net2: "eth5" });
  await lab.del(web);
  dra.allocate(vf, pci(2));
  expectError(await lab.add(web), 100, /vendor.example\/vf of the kubelet and of a resource claim/);
});

test("devices of a resource that no network needs may come from several sources", async () => {
  const [kubelet, dra] = [new FakeDevices(), new FakeDevices("a resource claim")];
  kubelet.allocate("vendor.example/gpu", "gpu0");
  kubelet.allocate(vf, pci(1));
  dra.allocate("vendor.example/gpu", "gpu1");
  const lab = labWith("sriov", [kubelet, dra]);
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(devicesOf(lab)).toMatchObject({ net1: pci(1) });
});

test("an empty resourceName counts as absent", async () => {
  const lab = labWith("unnamed", [new FakeDevices()]);
  lab.source.addNad("default/unnamed", network("net", "bridge"), needs(""));
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
});

/** `sriov`, whose plugin takes the file of device information. */
function labWithInfo(): EngineLab {
  const lab = labWith("sriov", [new FakeDevices().allocate(vf, pci(1))]);
  const capabilities = { CNIDeviceInfoFile: true };
  lab.source.addNad("default/sriov", plugins({ type: "sriov", capabilities }), needs(vf));
  lab.deviceInfo.files.set(dpFile, JSON.stringify(info));
  return lab;
}

const statusInfo = (lab: EngineLab): unknown =>
  lab.publisher.status("default/web")[1]?.["device-info"];

test("the device plugin's information is copied before ADD, passed to the plugin, and shown in the status [D-19] [D-20] [D-22]", async () => {
  const lab = labWithInfo();
  lab.plugins.script("sriov ADD", ({ conf }) => {
    expect(conf.runtimeConfig).toEqual({ CNIDeviceInfoFile: cniFile });
    expect(JSON.parse(lab.deviceInfo.files.get(cniFile) ?? "")).toEqual(info);
    return undefined;
  });
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(statusInfo(lab)).toEqual(info);
});

test("the status shows the device information that the plugin wrote into the file [D-20]", async () => {
  const lab = labWithInfo();
  lab.plugins.script("sriov ADD", () => {
    lab.deviceInfo.files.set(cniFile, '{"type":"vhost-user"}');
    return undefined;
  });
  await lab.add(web);
  expect(statusInfo(lab)).toEqual({ type: "vhost-user" });
});

test("a plugin that declares the capability gets the file's path even without a device [D-21]", async () => {
  const lab = labWith("plain", []);
  const capabilities = { CNIDeviceInfoFile: true };
  lab.source.addNad("default/plain", plugins({ type: "bridge", capabilities }));
  lab.plugins.script("bridge ADD", ({ conf }) => {
    expect(conf.runtimeConfig).toEqual({ CNIDeviceInfoFile: cniFile });
    lab.deviceInfo.files.set(cniFile, '{"type":"memif"}');
    return undefined;
  });
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(statusInfo(lab)).toEqual({ type: "memif" });
  await lab.del(web);
  expect(lab.deviceInfo.files.has(cniFile)).toBe(false);
});

test("the status shows the device plugin's information where no plugin takes the file [D-19] [D-20]", async () => {
  const lab = labWithInfo();
  lab.source.addNad("default/sriov", network("net-s", "sriov"), needs(vf));
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(statusInfo(lab)).toEqual(info);
});

test("a file that is left of an earlier attachment is not the information of one without a device [D-20]", async () => {
  const lab = labWith("plain", []);
  lab.deviceInfo.files.set(cniFile, JSON.stringify(info));
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(statusInfo(lab)).toBeUndefined();
});

test.each(["missing", "garbage"])("device information may be %s [D-20]", async (which) => {
  const lab = labWithInfo();
  if (which === "missing") lab.deviceInfo.files.delete(dpFile);
  else lab.deviceInfo.files.set(dpFile, "garbage");
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(statusInfo(lab)).toBeUndefined();
  expect(lab.logger.at("warn")).toHaveLength(which === "missing" ? 0 : 1);
});

test("an unwritable directory for device information does not fail the pod [D-20]", async () => {
  const lab = labWithInfo();
  lab.deviceInfo.failure = new Error("EROFS");
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.logger.at("warn")).toEqual([
    "the device information could not be copied",
    "the device information could not be removed",
  ]);
});

test.each<[string, (lab: EngineLab) => Promise<unknown>]>([
  ["DEL", (lab) => lab.del(web)],
  [
    "GC",
    (lab) => {
      lab.kernel.removeNamespace(netns);
      return lab.gc([]);
    },
  ],
])("%s removes the information after the delegates' DEL [D-20]", async (_, detach) => {
  const lab = labWithInfo();
  await lab.add(web);
  lab.plugins.script("sriov DEL", () => {
    expect(lab.deviceInfo.files.has(cniFile)).toBe(true);
    return undefined;
  });
  await detach(lab);
  expect([...lab.deviceInfo.files.keys()]).toEqual([dpFile]);
});

test("a DEL that fails keeps the information for the next one [D-20]", async () => {
  const lab = labWithInfo();
  await lab.add(web);
  lab.plugins.script("sriov DEL", failed(5, "busy"));
  await lab.del(web);
  expect(lab.deviceInfo.files.has(cniFile)).toBe(true);
});

test("a failed ADD leaves no information behind [D-20]", async () => {
  const lab = labWithInfo();
  lab.plugins.script("sriov ADD", failed(5, "no driver"));
  expect(await lab.add(web)).toMatchObject({ exitCode: 1 });
  expect(lab.deviceInfo.files.has(cniFile)).toBe(false);
});

/** Devices of claims, of the resource or of none. */
function claimed(resource: string, ...devices: [id: string, claim: string, request: string][]) {
  const source = new FakeDevices("ResourceClaim x");
  source.allocate(resource, ...devices.map(([id]) => id));
  source.claim(resource, ...devices.map(([, claim, request]) => ({ claim, request })));
  return source;
}

const byClaim = (name: string, claim: string, request?: string): JsonObject => ({
  name,
  "dev.plexus.resourceClaim": { claim, ...(request === undefined ? {} : { request }) },
});

test("a selection chooses the device of a claim and a request; the others get the rest [D-28]", async () => {
  const dra = claimed(vf, ["a", "left", "req"], ["b", "right", "one"], ["c", "right", "two"]);
  const networks = JSON.stringify([
    byClaim("sriov", "right", "two"),
    { name: "other" },
    byClaim("sriov", "right"),
  ]);
  const lab = labWith(networks, [new FakeDevices(), dra]);
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(devicesOf(lab)).toMatchObject({ net1: "c", net2: "a", net3: "b" });
  expect(lab.records.writes.at(-1)?.record.attachments[1]?.device).toEqual({
    id: "c",
    resourceName: vf,
    source: "ResourceClaim x",
  });
});

test("a claim's device needs no resource, neither on the device nor in the definition [D-28]", async () => {
  const networks = JSON.stringify([byClaim("plain", "nic"), byClaim("sriov", "nic")]);
  const lab = labWith(networks, [claimed("", ["a", "nic", "req"], ["b", "nic", "req"])]);
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(devicesOf(lab)).toMatchObject({ net1: "a", net2: "b" });
  // Nor need it have one for claims: no device plugin has described it.
  expect(lab.logger.at("warn")).toEqual([]);
});

test.each([
  ["for a definition without a resource", byClaim("plain", "nic")],
  ["with the ID of its device", { ...byClaim("sriov", "nic"), deviceID: "a" }],
  ["of several for which the device was allocated", byClaim("sriov", "shared", "one")],
])("a selection by a claim finds its device %s [D-28]", async (_, element) => {
  const claims = [
    { claim: "nic", request: "req" },
    { claim: "shared", request: "one" },
  ];
  const dra: DeviceSource = {
    devicesOf: async () => new Map([[vf, [{ id: "a", source: "ResourceClaim x", claims }]]]),
  };
  const lab = labWith(JSON.stringify([element]), [], { deviceSources: [dra] });
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(devicesOf(lab)).toMatchObject({ net1: "a" });
});

const hasClaimed = `gpu0 (vendor.example/gpu); a (${vf}, request req of claim nic)`;
const unclaimed = (network: string, claim: string, resource: string): string =>
  `network default/${network}: the pod's annotation asks for the device of ${claim}, for which it was ` +
  `allocated no device${resource} that another of its networks does not have; the pod has ${hasClaimed}`;

test.each([
  [
    "that the pod does not have",
    byClaim("sriov", "gone"),
    unclaimed("sriov", 'its resource claim "gone"', ` of resource ${vf}`),
  ],
  [
    "that the pod does not have, for a definition without a resource",
    byClaim("plain", "gone"),
    unclaimed("plain", 'its resource claim "gone"', ""),
  ],
  [
    "without such a request",
    byClaim("sriov", "nic", "gone"),
    unclaimed("sriov", 'request "gone" of its resource claim "nic"', ` of resource ${vf}`),
  ],
  [
    "of another resource, whose device has no claim",
    byClaim("gpu", "nic"),
    unclaimed("gpu", 'its resource claim "nic"', " of resource vendor.example/gpu"),
  ],
  [
    "with another device than the one named",
    { ...byClaim("sriov", "nic"), deviceID: "z" },
    noSuch("sriov", `"z" of resource ${vf}`, hasClaimed),
  ],
])("a selection by a claim %s is refused [D-28]", async (_, element, msg) => {
  const kubelet = new FakeDevices().allocate("vendor.example/gpu", "gpu0");
  const lab = labWith(JSON.stringify([element]), [kubelet, claimed(vf, ["a", "nic", "req"])]);
  lab.source.addNad("default/gpu", network("gpu", "gpu"), needs("vendor.example/gpu"));
  expect((await lab.add(web)).json).toMatchObject({ code: 100, msg });
  expect(lab.events.reasons).toEqual(["DeviceNotAllocated"]);
});

const unavailable = new CniError("TryAgainLater", "the API server is unavailable");

test.each([
  ["has one device of the one that it needs", "sriov", {}],
  ["has one device of each of two resources", "sriov,third", {}],
  ["needs a device for its default network only", "plain", { conf: { clusterNetwork: "main" } }],
  ["has fewer devices than networks", "sriov,other", { code: 11 }],
  ["has the device of one resource of two", "sriov,fourth", { code: 11 }],
  ["asks for the device of a claim", JSON.stringify([byClaim("sriov", "nic")]), { code: 11 }],
  ["asks for a device that may be of any resource", asking("plain", "z"), { code: 11 }],
])(
  "an unavailable source blocks a pod only if other sources have not enough devices: one that %s [D-29]",
  async (_, networks, { conf, ...error }: { conf?: JsonObject; code?: number }) => {
    const kubelet = new FakeDevices().allocate(vf, "a").allocate("vendor.example/third", "c");
    const dra = new FakeDevices("ResourceClaim x");
    dra.failure = unavailable;
    const lab = labWith(networks, [kubelet, dra], conf && { conf });
    lab.source.addNad("kube-system/main", network("main", "ptp"), needs(vf));
    lab.source.addNad("default/third", network("net-t", "macvtap"), needs("vendor.example/third"));
    lab.source.addNad("default/fourth", network("net-f", "vdpa"), needs("vendor.example/fourth"));
    const { json } = await lab.add(web);
    expect(json.code).toBe(error.code);
    if (error.code === undefined) expect(lab.logger.at("warn")).toHaveLength(1);
    dra.failure = new CniError("InvalidRequest", "a claim is missing");
    const { json: decisive } = await lab.add({ ...web, env: { CNI_CONTAINERID: "c2" } });
    expect(decisive).toMatchObject({ code: 100, msg: "a claim is missing" });
  },
);

/** A source of devices that reads the pod. */
function readingPod(read: unknown[]): DeviceSource {
  return {
    async devicesOf({ podObject }) {
      read.push(await podObject());
      return new Map();
    },
  };
}

test("sources of devices share one reading of the pod, which ends with the call [D-10]", async () => {
  const [read, signals] = [[], []] as [unknown[], unknown[]];
  const kubelet = new FakeDevices().allocate(vf, pci(1));
  const deviceSources = [readingPod(read), kubelet, readingPod(read)];
  const lab = labWith("sriov", [], { deviceSources });
  const object = { spec: { nodeName: "n1" } };
  lab.source.getPodObject = async (_pod, { signal }) => {
    signals.push(signal);
    return object;
  };
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(read).toEqual([object, object]);
  expect(signals).toEqual([kubelet.lookups[0]?.signal]);
});

test("without a source of pods, sources of devices get no pod to read", async () => {
  const read: unknown[] = [];
  const kubelet = new FakeDevices().allocate(vf, pci(1));
  const lab = new EngineLab({
    noSource: true,
    definitions: {
      getNad: async (ref) => ({
        ...ref,
        annotations: needs(vf),
        config: JSON.stringify(network("net-s", "sriov")),
      }),
    },
    deviceSources: [readingPod(read), kubelet],
  });
  const annotations = { [networksAnnotation]: "sriov" };
  const runtimeConfig = { [podAnnotationsCapability]: annotations };
  expect(await lab.add({ pod: "default/web/uid-1", conf: { runtimeConfig } })).toMatchObject({
    exitCode: 0,
  });
  expect(devicesOf(lab)).toMatchObject({ net1: pci(1) });
  expect(read).toEqual([undefined]);
});
