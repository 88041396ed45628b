import { expect, test } from "vitest";
import { EngineLab, netns, network, sandbox } from "#engine/testing/engine-lab.ts";
import { failed } from "#engine/testing/fake-plugins.ts";
import { attachedTo } from "#engine/testing/pod-lab.ts";

/** A sandbox that is attached to one network of these plugins, whose interface is gone by now. */
async function withoutInterface(...types: string[]): Promise<EngineLab> {
  const lab = await attachedTo(network("default-net", ...types));
  lab.kernel.removeLink(netns, "eth0");
  return lab;
}

/** Lets the plugin fail in DEL as long as it gets a namespace. */
function insist(lab: EngineLab, type: string): void {
  lab.plugins.script(`${type} DEL`, (call) =>
    call.netns === "" ? undefined : failed(5, "Link not found"),
  );
}

/** In which namespaces a plugin's DELs were executed. */
function namespaces(lab: EngineLab, type: string): string[] {
  return lab.plugins.of(type, "DEL").map((call) => call.netns);
}

/** `ran`: the namespaces of the DELs. Some plugins are repeated without one if their interface is gone. */
test.each([
  { type: "host-device", found: "no interface", ran: [netns, ""] },
  { type: "vrf", found: "no interface", ran: [netns, ""] },
  { type: "host-device", found: "no interface, no record", ran: [netns, ""] },
  { type: "host-device", found: "the interface", ran: [netns] },
  { type: "sriov", found: "no interface", ran: [netns] },
  { type: "userspace", found: "no interface", ran: [netns] },
  { type: "bridge", found: "no interface", ran: [netns] },
  { type: "vendor", found: "no interface", ran: [netns] },
])("del() in a namespace with $found runs $type, which fails there, in $ran", async (scene) => {
  const { type, found, ran } = scene;
  const lab = await withoutInterface(type);
  if (found === "the interface") lab.kernel.addLink(netns, "eth0");
  if (found.endsWith("no record")) lab.records.damage(sandbox, "record");
  insist(lab, type);
  const isDetached = ran.length > 1;
  expect((await lab.del()).json).toEqual(isDetached ? {} : expect.objectContaining({ code: 5 }));
  expect(namespaces(lab, type)).toEqual(ran);
  expect(lab.records.keys).toEqual(isDetached ? [] : ["c1@eth0"]);
});

test.each(["the interface", "the namespace"])("del() ignores sbr if %s is gone", async (gone) => {
  const lab = await withoutInterface("ptp", "sbr");
  if (gone === "the namespace") lab.kernel.removeNamespace(netns);
  lab.plugins.script("sbr DEL", failed(999, "no such file or directory"));
  expect(await lab.del()).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.of("ptp", "DEL")).toHaveLength(1);
  expect(lab.records.keys).toEqual([]);
});

test("del() keeps the record if sbr fails while its interface exists", async () => {
  const lab = await withoutInterface("ptp", "sbr");
  lab.kernel.addLink(netns, "eth0");
  lab.plugins.script("sbr DEL", failed(999, "busy"));
  expect((await lab.del()).json).toMatchObject({ code: 999 });
  expect(lab.records.keys).toEqual(["c1@eth0"]);
});

test("del() repeats only the failing plugin without a namespace, not the next one of the chain", async () => {
  const lab = await withoutInterface("sriov", "vrf");
  insist(lab, "vrf");
  expect(await lab.del()).toMatchObject({ exitCode: 0 });
  expect(namespaces(lab, "vrf")).toEqual([netns, ""]);
  expect(namespaces(lab, "sriov")).toEqual([netns]);
});

/** What plugins say whose IPAM plugin is missing: libcni's words. */
const lacksIpam = 'failed to find plugin "host-local" in path [/opt/cni/bin]';

test("a repeated DEL does not execute a plugin whose failure was ignored", async () => {
  const lab = await withoutInterface("ptp", "sbr");
  lab.plugins.script("sbr DEL", failed(999, "no such interface"));
  lab.plugins.script("ptp DEL", failed(5, "busy"));
  expect(await lab.del()).toMatchObject({ exitCode: 1 });
  lab.plugins.calls.length = 0;
  expect(await lab.del()).toMatchObject({ exitCode: 1 });
  expect(lab.plugins.log()).toEqual(["ptp DEL eth0"]);
});

test("del() still passes the namespace to the next plugin after one whose IPAM plugin is missing", async () => {
  const plugins = [{ type: "sriov" }, { type: "vendor", ipam: { type: "host-local" } }];
  const conf = { cniVersion: "1.0.0", name: "default-net", plugins };
  const lab = new EngineLab({
    conf: { delegates: [conf] },
    config: { delGraceMs: 0 },
  });
  await lab.add();
  lab.kernel.removeLink(netns, "eth0");
  lab.plugins.setLookup("host-local", { outcome: "missing", message: "no such plugin" });
  lab.plugins.script("vendor DEL", failed(999, lacksIpam));
  expect(await lab.del()).toMatchObject({ exitCode: 0 });
  expect(namespaces(lab, "sriov")).toEqual([netns]);
});

test.each(["host-device", "sriov"])("del() repeats that of %s without namespace", async (type) => {
  const lab = await withoutInterface("ptp", type);
  lab.plugins.script(`${type} DEL`, (call) => {
    lab.kernel.removeNamespace(netns);
    return call.netns === "" ? undefined : failed(8, "netns is gone");
  });
  expect(await lab.del()).toMatchObject({ exitCode: 0 });
  expect(namespaces(lab, type)).toEqual([netns, ""]);
});

test("del() does not treat interface or namespace as gone if the kernel does not answer", async () => {
  const lab = await withoutInterface("host-device", "sriov");
  lab.kernel.refuse = () => 1;
  insist(lab, "host-device");
  lab.plugins.script("sriov DEL", failed(5, "busy"));
  expect((await lab.del()).json).toMatchObject({ msg: expect.stringContaining("busy") });
  lab.plugins.unscript("sriov DEL");
  expect((await lab.del()).json).toMatchObject({ code: 5 });
  expect(new Set(lab.plugins.calls.map((call) => call.netns))).toEqual(new Set([netns]));
});
