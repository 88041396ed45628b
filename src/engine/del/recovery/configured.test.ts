import { expect, test } from "vitest";
import { EngineLab, netns, network, sandbox } from "#engine/testing/engine-lab.ts";

/* Sandboxes without a pod whose record and plan are lost: what is left is the call's configuration. */

const back = network("back", "bridge", "tuning");
const delegates = [network("front", "ptp"), back];

/** A container that is attached to the delegates, in ptp on eth0 and in bridge and tuning on net1. */
async function attached(): Promise<EngineLab> {
  const lab = new EngineLab({ conf: { delegates } });
  await add(lab);
  lab.plugins.calls.length = 0;
  return lab;
}

async function add(lab: EngineLab, env: Record<string, string> = {}): Promise<void> {
  expect(await lab.add({ env })).toMatchObject({ exitCode: 0 });
}

function loseRecord(lab: EngineLab, key = sandbox): void {
  lab.records.lose(key);
}

const everything = ["tuning DEL net1", "bridge DEL net1", "ptp DEL eth0"];

test.each(["lost", "emptied"])("DEL with a %s record detaches all networks", async (state) => {
  const lab = await attached();
  if (state === "lost") loseRecord(lab);
  else lab.records.cutOff(sandbox);
  expect(await lab.del()).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(everything);
  expect(lab.plugins.calls.map((call) => call.netns)).toEqual([netns, netns, netns]);
  expect(lab.logger.at("warn")).toEqual([]);
});

test("DEL without a record passes each network what its ADD got", async () => {
  const lab = await attached();
  loseRecord(lab);
  const runtimeConfig = { portMappings: [] };
  const portmap = { type: "ptp", capabilities: { portMappings: true } };
  const front = { cniVersion: "1.0.0", name: "front", plugins: [portmap] };
  const prevResult = { cniVersion: "1.0.0", interfaces: [{ name: "eth0" }] };
  const conf = { delegates: [front, back], runtimeConfig, prevResult };
  await lab.del({ conf, env: { CNI_ARGS: "IgnoreUnknown=1;IP=192.0.2.1" } });
  const [tuning, , ptp] = lab.plugins.calls;
  expect(ptp?.conf).toMatchObject({ runtimeConfig, prevResult });
  expect(ptp?.env.CNI_ARGS).toContain("IP=192.0.2.1");
  expect(tuning?.conf).not.toHaveProperty("runtimeConfig");
  expect(tuning?.conf).not.toHaveProperty("prevResult");
  expect(tuning?.env.CNI_ARGS).not.toContain("IP=");
});

test("DEL without a record passes the further delegates no namespace without the default network's interface", async () => {
  const lab = new EngineLab({ conf: { delegates } });
  lab.kernel.addLink(netns, "net1", []);
  const refused = { delegates: [...delegates, { name: "without-plugins" }] };
  expect(await lab.add({ conf: refused })).toMatchObject({ exitCode: 1 });
  expect(await lab.del()).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.calls.map((call) => [call.type, call.netns])).toEqual([
    ["tuning", ""],
    ["bridge", ""],
    ["ptp", netns],
  ]);
});

test("DEL without a record passes no namespace in which another container has one of the interfaces", async () => {
  const lab = await attached();
  loseRecord(lab);
  for (const name of ["eth0", "net1"]) lab.kernel.removeLink(netns, name);
  await add(lab, { CNI_CONTAINERID: "c2", CNI_IFNAME: "eth1" });
  lab.plugins.calls.length = 0;
  expect(await lab.del()).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(everything);
  expect(lab.plugins.calls.map((call) => call.netns)).toEqual(["", "", ""]);
});

test.each([
  ["first", "eth0", ["tuning DEL net1", "bridge DEL net1", "ptp DEL eth0"]],
  ["second", "eth1", ["tuning DEL net2", "bridge DEL net2", "ptp DEL eth1"]],
])("DEL without a record of a %s attachment leaves the other one's", async (_, ifName, log) => {
  const lab = await attached();
  await add(lab, { CNI_IFNAME: "eth1" });
  lab.plugins.calls.length = 0;
  loseRecord(lab, { ...sandbox, ifName });
  expect(await lab.del({ env: { CNI_IFNAME: ifName } })).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(log);
  expect(lab.plugins.calls.map((call) => call.netns)).toEqual([netns, netns, netns]);
});

test.each([
  [
    "its plan names its interfaces",
    ["tuning DEL net2", "bridge DEL net2", "ptp DEL eth1"],
    (lab: EngineLab) => lab.records.damage(sandbox, "record"),
  ],
  [
    "without a plan it may have any",
    ["ptp DEL eth1"],
    (lab: EngineLab) => lab.records.cutOff(sandbox),
  ],
])("DEL without a record leaves interfaces of a damaged one: %s", async (_, log, damage) => {
  const lab = await attached();
  await add(lab, { CNI_IFNAME: "eth1" });
  lab.kernel.addNamespace("/run/netns/c2");
  await add(lab, { CNI_CONTAINERID: "c2", CNI_NETNS: "/run/netns/c2" });
  lab.records.cutOff({ ...sandbox, containerId: "c2" });
  damage(lab);
  loseRecord(lab, { ...sandbox, ifName: "eth1" });
  lab.plugins.calls.length = 0;
  expect(await lab.del({ env: { CNI_IFNAME: "eth1" } })).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(log);
});

test("DEL without a record runs only the default network, with a warning, if another one cannot be used", async () => {
  const lab = await attached();
  loseRecord(lab);
  const conf = { delegates: [network("front", "ptp"), { cniVersion: "1.0.0", name: "back" }] };
  expect(await lab.del({ conf })).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["ptp DEL eth0"]);
  expect(lab.logger.at("warn")).toHaveLength(1);
});

test("DEL without a record of an interface that another attachment of the container has gets no namespace", async () => {
  const lab = await attached();
  expect(await lab.del({ env: { CNI_IFNAME: "net1" } })).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["tuning DEL net2", "bridge DEL net2", "ptp DEL net1"]);
  expect(lab.plugins.calls.map((call) => call.netns)).toEqual(["", "", ""]);
  expect(lab.records.keys).toEqual(["c1@eth0"]);
});
