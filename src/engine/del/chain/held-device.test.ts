import { expect, test } from "vitest";
import { EngineLab, expectError, network } from "#engine/testing/engine-lab.ts";
import { FakeDevices } from "#engine/testing/fake-devices.ts";
import { failed } from "#engine/testing/fake-plugins.ts";
import { missing } from "#engine/testing/pod-lab.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";

/*
 * A virtual function whose DEL is late or owed, and that another pod has by then: sriov resets it by its PCI address,
 * in any pod (sriov-cni 219).
 */

const vf = "vendor.example/vf";
const pci = "0000:03:02.1";

const keyOf = (containerId: string) => ({ containerId, ifName: "eth0" });
const callOf = (id: string) => ({
  pod: `default/${id}`,
  env: { CNI_CONTAINERID: id, CNI_NETNS: `/run/netns/${id}` },
});

/** Pods c1 and c2 that both get the same function, with addresses and a chained portmap. */
function labWithVf(): EngineLab {
  const lab = new EngineLab({ deviceSources: [new FakeDevices().allocate(vf, pci)] });
  const plugins = [{ type: "sriov", ipam: { type: "host-local" } }, { type: "portmap" }];
  const conf = { cniVersion: "1.0.0", name: "net-s", plugins };
  lab.source.addNad("default/s", conf, { "k8s.v1.cni.cncf.io/resourceName": vf });
  for (const id of ["c1", "c2"]) {
    lab.kernel.addNamespace(`/run/netns/${id}`);
    lab.source.addPod({ name: id, annotations: { [networksAnnotation]: "s" } });
  }
  return lab;
}

/** The first pod has it. */
async function attached(): Promise<EngineLab> {
  const lab = labWithVf();
  expect(await lab.add(callOf("c1"))).toMatchObject({ exitCode: 0 });
  lab.plugins.calls.length = 0;
  return lab;
}

/** The function leaves the first pod, and the second one gets it. */
async function moved(of: EngineLab | Promise<EngineLab> = attached()): Promise<EngineLab> {
  const lab = await of;
  lab.kernel.removeLink("/run/netns/c1", "net1");
  expect(await lab.add(callOf("c2"))).toMatchObject({ exitCode: 0 });
  lab.plugins.calls.length = 0;
  return lab;
}

/** Detaches the first pod, which executes these. */
async function expectDel(lab: EngineLab, log: readonly string[]): Promise<void> {
  lab.plugins.calls.length = 0;
  expect(await lab.del(callOf("c1"))).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(log);
}

const released = ["portmap DEL net1", "host-local DEL net1", "ptp DEL eth0"];
const everything = ["portmap DEL net1", "sriov DEL net1", "ptp DEL eth0"];

test("del() that is repeated releases addresses and rules, but not a device that another pod has now", async () => {
  const lab = await attached();
  lab.plugins.script("portmap DEL", failed(5, "busy"));
  expect(await lab.del(callOf("c1"))).toMatchObject({ exitCode: 1 });
  lab.plugins.unscript("portmap DEL");
  await moved(lab);
  await expectDel(lab, released.slice(0, 2));
  expect(lab.records.keys).toEqual(["c2@eth0"]);
  const { reason, message } = lab.events.recorded.at(-1)!;
  expect(reason).toBe("DeviceInUse");
  expect(message).toContain(
    `did not release device ${pci} with plugin "sriov", because default/c2 has`,
  );
  lab.plugins.calls.length = 0;
  expect(await lab.del(callOf("c2"))).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(everything);
});

test("del() leaves a device that another pod got while a plugin hung", async () => {
  const lab = await attached();
  lab.plugins.script("portmap DEL", async () => {
    lab.advance(2000);
    await moved(lab);
    return undefined;
  });
  expect(await lab.del(callOf("c1"))).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(released.slice(1));
});

test("del() that is repeated leaves a device to the pod that has the namespace now, by another spelling of its path", async () => {
  const lab = labWithVf();
  const [path, alias] = ["/run/netns/web", "/run//netns/web"];
  const at = (id: string, CNI_NETNS: string) => ({
    ...callOf(id),
    env: { CNI_CONTAINERID: id, CNI_NETNS },
  });
  lab.kernel.addNamespace(path);
  await lab.add(at("c1", path));
  lab.plugins.script("portmap DEL", failed(5, "busy"));
  expect(await lab.del(at("c1", path))).toMatchObject({ exitCode: 1 });
  lab.plugins.unscript("portmap DEL");
  lab.kernel.addNamespace(path);
  lab.kernel.linkNamespace(path, alias);
  expect(await lab.add(at("c2", alias))).toMatchObject({ exitCode: 0 });
  lab.plugins.calls.length = 0;
  expect(await lab.del(at("c1", path))).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(released.slice(0, 2));
  expect(lab.kernel.linkNames(path)).toEqual(["eth0", "net1"]);
});

test("del() that leaves a device to another pod fails while its address cannot be released", async () => {
  const lab = await moved();
  lab.plugins.script("host-local DEL", failed(11, "store is locked"));
  expect((await lab.del(callOf("c1"))).json).toMatchObject({ code: 11 });
  lab.plugins.unscript("host-local DEL");
  lab.plugins.setLookup("host-local", missing);
  expect(await lab.del(callOf("c1"))).toMatchObject({ exitCode: 0 });
});

test("del() by the teardown plan releases a device that only its own damaged record names", async () => {
  const lab = await attached();
  lab.kernel.removeLink("/run/netns/c1", "net1");
  lab.records.damage(keyOf("c1"), "record");
  await expectDel(lab, everything);
});

test.each([{}, { "k8s.v1.cni.cncf.io/resourceName": vf }])(
  "del() releases a device that another pod's record names only for plugins that ignore it: %j",
  async (annotations) => {
    const lab = await attached();
    lab.kernel.removeLink("/run/netns/c1", "net1");
    lab.source.addNad("default/s", network("net-t", "macvlan"), annotations);
    await lab.add(callOf("c2"));
    lab.records.changeAttachments(({ conf }) => ({ conf: { ...conf, comment: pci } }));
    await expectDel(lab, everything);
  },
);

test.each<[string, (lab: EngineLab) => void]>([
  [
    "another pod has now, also without an own namespace or record",
    ({ kernel, records }) => {
      kernel.removeNamespace("/run/netns/c1");
      records.damage(keyOf("c1"), "record");
    },
  ],
  [
    "another pod is attached with, although a third one may get it",
    ({ records }) => {
      const { record, plan } = records.writes.at(-1)!;
      records.changeAttachments(() => ({ state: "attempted" }));
      records.put({ ...record, containerId: "c3" }, plan);
    },
  ],
  ["a damaged record names", ({ records }) => records.damage(keyOf("c2"), "record")],
  [
    "a later sandbox has, whose namespace is not seen",
    ({ kernel }) => kernel.removeNamespace("/run/netns/c2"),
  ],
])("del() leaves a device that %s", async (_, change) => {
  const lab = await moved();
  change(lab);
  await expectDel(lab, released);
});

test("del() fails while a record cannot be read, which may have the device", async () => {
  const lab = await moved();
  lab.records.damage(keyOf("c2"), "record");
  lab.records.unreadable.add("c2@eth0");
  expectError(await lab.del(callOf("c1")), 11, "attachment record c2@eth0");
  lab.records.unreadable.clear();
  expect(await lab.del(callOf("c1"))).toMatchObject({ exitCode: 0 });
});

test("del() releases a device whose interface is still in the sandbox, and one that only ended sandboxes have", async () => {
  const lab = await attached();
  const { record, plan } = lab.records.writes.at(-1)!;
  await moved(lab);
  lab.kernel.addLink("/run/netns/c1", "net1");
  await expectDel(lab, everything);
  lab.records.put(record, plan);
  lab.plugins.script("sriov DEL", failed(5, "busy"));
  expect(await lab.del(callOf("c2"))).toMatchObject({ exitCode: 1 });
  lab.plugins.unscript("sriov DEL");
  await expectDel(lab, everything);
});

test.each(["planned", "attempted"] as const)(
  "del() fails while a device is $0 for a sandbox that is not attached yet, and releases it if that ADD fails",
  async (state) => {
    const lab = await moved();
    const { record, plan } = lab.records.writes.at(-1)!;
    lab.records.changeAttachments(() => ({ state }));
    expect(await lab.del(callOf("c1"))).toMatchObject({
      json: {
        code: 11,
        msg: expect.stringContaining(
          `cannot yet release device ${pci} with plugin "sriov": default/c2 is being attached with it`,
        ),
      },
    });
    expect(lab.plugins.log()).toEqual(["portmap DEL net1", "ptp DEL eth0"]);
    lab.records.put({ ...record, attachments: [] }, { ...plan, steps: [] });
    await expectDel(lab, ["sriov DEL net1"]);
  },
);

test("the rollback of an ADD releases a device of a sandbox without a DEL whose namespace is gone", async () => {
  const lab = await attached();
  lab.kernel.removeNamespace("/run/netns/c1");
  lab.plugins.script("sriov ADD", failed(999, "killed"));
  expect(await lab.add(callOf("c2"))).toMatchObject({ exitCode: 1 });
  expect(lab.plugins.log("DEL")).toEqual(everything);
});

test("the rollback of an ADD leaves a device that another pod still has", async () => {
  const lab = await attached();
  lab.kernel.removeLink("/run/netns/c1", "net1");
  lab.plugins.script("sriov ADD", failed(999, "device or resource is in use"));
  expect(await lab.add(callOf("c2"))).toMatchObject({ exitCode: 1 });
  expect(lab.plugins.log("DEL")).toEqual(released);
  expect(lab.records.keys).toEqual(["c1@eth0"]);
});

test("add() leaves to an engine what has its device already, and itself if that may run", async () => {
  const lab = await attached();
  expect([...lab.records.engineOnly]).toEqual([]);
  await moved(lab);
  expect(lab.records.engineOnly).toEqual(new Set(["c1@eth0", "c2@eth0"]));
  expect(await lab.del(callOf("c2"))).toMatchObject({ exitCode: 0 });
  lab.records.beginDel(keyOf("c1"), new Date(0).toISOString());
  expect(await lab.add(callOf("c2"))).toMatchObject({ exitCode: 0 });
  expect([...lab.records.engineOnly]).toEqual(["c1@eth0"]);
});

test("add() leaves a damaged record that names its device to an engine", async () => {
  const lab = await attached();
  lab.records.damage(keyOf("c1"), "record");
  await moved(lab);
  expect(lab.records.engineOnly).toEqual(new Set(["c1@eth0", "c2@eth0"]));
});

test("add() waits for an operation on the sandbox that had its device, whose DEL may still reset it", async () => {
  const lab = await attached();
  lab.kernel.removeLink("/run/netns/c1", "net1");
  lab.records.locked.add("c1");
  const isLocked = lab.records.isLocked.bind(lab.records);
  let looks = 0;
  lab.records.isLocked = (id) => {
    // The ADD is recorded, so that a DEL which begins now finds the device in use.
    expect(lab.records.keys).toContain("c2@eth0");
    expect(lab.plugins.log()).toEqual([]);
    // So is the mark, which a DEL without an engine looks for.
    expect(lab.records.engineOnly).toContain("c1@eth0");
    if (++looks === 3) lab.records.locked.delete("c1");
    return isLocked(id);
  };
  expect(await lab.add(callOf("c2"))).toMatchObject({ exitCode: 0 });
  expect(looks).toBe(3);
});

test("add() stops waiting for that operation if the shim disconnects", async () => {
  const lab = await attached();
  const host = lab.host();
  let looks = 0;
  lab.records.isLocked = async () => {
    host.goesAt = 0;
    if (++looks === 2) await host.find([], []).catch(() => undefined);
    return true;
  };
  await expect(lab.add({ ...callOf("c2"), host })).rejects.toThrow("the shim has gone");
  expect([looks, lab.plugins.log()]).toEqual([2, []]);
});

test("add() fails with code 11 when that operation does not end", async () => {
  const lab = await attached();
  lab.records.isLocked = async () => {
    lab.advance(4000);
    return true;
  };
  expectError(await lab.add(callOf("c2")), 11, `device ${pci} is not free`);
  expect(lab.plugins.log("ADD")).toEqual([]);
  expect(lab.records.keys).toEqual(["c1@eth0"]);
});
