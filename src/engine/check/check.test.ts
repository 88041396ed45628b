import { expect, test } from "vitest";
import {
  EngineLab,
  expectError,
  type LabOptions,
  netns,
  network,
} from "#engine/testing/engine-lab.ts";
import { exited, failed, interfaceResult } from "#engine/testing/fake-plugins.ts";
import { podLab, web } from "#engine/testing/pod-lab.ts";
import type { JsonObject } from "#lib/json.ts";

/** A pod that is attached to ptp on eth0, and to bridge and tuning on net1. */
async function attached(
  conf: JsonObject = network("net-a", "bridge", "tuning"),
  config: LabOptions["config"] = {},
): Promise<EngineLab> {
  const lab = podLab("a", {}, { config });
  lab.source.addNad("default/a", conf);
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  lab.plugins.calls.length = 0;
  lab.source.asked.length = 0;
  return lab;
}

/** The same, with `checkDelegates: all`. */
function attachedAskingAll(conf?: JsonObject): Promise<EngineLab> {
  return attached(conf, { checkDelegates: "all" });
}

test("check() runs the default network's plugins, but none of a requested network", async () => {
  const lab = await attached();
  lab.plugins.script("bridge CHECK", failed(120, "Mac doesn't match"));
  expect(await lab.check(web)).toMatchObject({ exitCode: 0, stdout: "" });
  expect(lab.plugins.log()).toEqual(["ptp CHECK eth0"]);
});

test("check() with checkDelegates: all runs every plugin of every attachment, in order, directly after ADD [R-0.4-23] [R-1.0-31] [R-0.4-22]", async () => {
  const lab = await attachedAskingAll();
  expect(await lab.check(web)).toMatchObject({ exitCode: 0, stdout: "" });
  expect(lab.plugins.log()).toEqual(["ptp CHECK eth0", "bridge CHECK net1", "tuning CHECK net1"]);
  expect(lab.source.asked).toEqual([]);
});

test("check() passes plugins the final result and the ADD's parameters [R-0.4-24] [R-1.0-25]", async () => {
  const lab = await attachedAskingAll();
  const added = lab.records.writes.at(-1)!.record.attachments[1]!.result;
  await lab.check(web);
  for (const call of lab.plugins.calls.filter((each) => each.ifName === "net1")) {
    expect(call).toMatchObject({
      containerId: "c1",
      netns,
      conf: { name: "net-a", prevResult: added },
    });
  }
});

test("check() stops at the first plugin that fails and returns its error, naming the network [R-0.4-24]", async () => {
  const lab = await attachedAskingAll();
  lab.plugins.script("bridge CHECK", failed(120, "no bridge"));
  expect((await lab.check(web)).json).toMatchObject({
    code: 120,
    msg: 'network default/a (net1): plugin type="bridge" failed (check): no bridge',
  });
  expect(lab.plugins.log()).toEqual(["ptp CHECK eth0", "bridge CHECK net1"]);
  expect(lab.records.keys).toEqual(["c1@eth0"]);
});

test("check() of a container without a record fails with code 3, unknown container [R-0.4-24]", async () => {
  const lab = await attached();
  const { json } = await lab.check({ ...web, env: { CNI_CONTAINERID: "c9" } });
  expect(json).toMatchObject({ code: 3, msg: expect.stringContaining("c9") });
  await lab.del(web);
  expect((await lab.check(web)).json).toMatchObject({ code: 3 });
});

/** The sandbox of the lab's one network, and the answer of its ADD. */
async function added(): Promise<{ lab: EngineLab; prevResult: JsonObject }> {
  const lab = new EngineLab();
  lab.plugins.script("ptp ADD", (call) => {
    lab.plugins.work(call);
    return exited(0, { ...interfaceResult(call, "10.0.0.1/24"), "x.example/own": "kept" });
  });
  const { json: prevResult } = await lab.add();
  lab.kernel.removeLink(netns, "eth0");
  lab.kernel.addLink(netns, "eth0", ["10.0.0.1/24"]);
  lab.plugins.calls.length = 0;
  return { lab, prevResult };
}

test.each<[what: string, of: (printed: JsonObject) => JsonObject]>([
  ["no result", () => ({})],
  ["the result of the ADD", (prevResult) => ({ prevResult })],
  [
    "the result of the ADD without its version",
    ({ cniVersion: _, ...prevResult }) => ({ prevResult }),
  ],
])("check() with %s passes the default network's plugins what they printed", async (_, of) => {
  const { lab, prevResult } = await added();
  expect(await lab.check({ conf: of(prevResult) })).toMatchObject({ exitCode: 0 });
  const [recorded] = lab.records.writes.at(-1)!.record.attachments;
  expect(recorded?.result).toMatchObject({ "x.example/own": "kept" });
  expect(lab.plugins.of("ptp", "CHECK")[0]?.conf.prevResult).toEqual(recorded?.result);
});

test("check() goes by the result that later plugins of the runtime's list have changed [R-0.4-24]", async () => {
  const { lab, prevResult } = await added();
  const changed = { ...prevResult, ips: [{ address: "10.0.0.9/24", interface: 0 }] };
  const lost = "network default-net (eth0): interface eth0 has lost its address 10.0.0.9/24";
  expect((await lab.check({ conf: { prevResult: changed } })).json).toMatchObject({ msg: lost });
  lab.kernel.addAddresses(netns, "eth0", ["10.0.0.9/24"]);
  expect(await lab.check({ conf: { prevResult: changed } })).toMatchObject({ exitCode: 0 });
  const { cniVersion: _, ...unversioned }: JsonObject = changed;
  expect(await lab.check({ conf: { prevResult: unversioned } })).toMatchObject({ exitCode: 0 });
  const passed = lab.plugins.of("ptp", "CHECK").map(({ conf }) => conf.prevResult);
  expect(passed).toEqual([changed, changed]);
});

test("check() wants each address on its own interface", async () => {
  const { lab, prevResult } = await added();
  const interfaces = ["eth0", "eth1"].map((name) => ({ name, sandbox: netns }));
  const ips = interfaces.map((_, i) => ({ address: `10.0.${i}.1/24`, interface: i }));
  const conf = { prevResult: { ...prevResult, interfaces, ips } };
  lab.kernel.addLink(netns, "eth1", ["10.0.9.1/24"]);
  lab.kernel.addAddresses(netns, "eth0", ["10.0.0.1/24", "10.0.1.1/24"]);
  expect((await lab.check({ conf })).json).toMatchObject({
    msg: "network default-net (eth0): interface eth1 has lost its address 10.0.1.1/24",
  });
  lab.kernel.addAddresses(netns, "eth1", ["10.0.1.1/24"]);
  expect(await lab.check({ conf })).toMatchObject({ exitCode: 0 });
});

test("check() reports a missing interface before it runs any plugin of its network [R-0.4-21]", async () => {
  const lab = await attached();
  lab.kernel.removeLink(netns, "net1");
  expect((await lab.check(web)).json).toMatchObject({
    msg: "network default/a (net1): interface net1 is gone",
  });
  expect(lab.plugins.log()).toEqual(["ptp CHECK eth0"]);
});

test("check() reports an interface that lost its address", async () => {
  const lab = await attached();
  lab.kernel.removeLink(netns, "net1");
  lab.kernel.addLink(netns, "net1", ["10.0.0.2/25", "10.0.0.3/24"]);
  expect((await lab.check(web)).json).toMatchObject({
    msg: "network default/a (net1): interface net1 has lost its address 10.0.0.2/24",
  });
});

test("check() ignores addresses that the result does not have, and interfaces of the host [R-0.4-20]", async () => {
  const lab = new EngineLab();
  lab.plugins.script("ptp ADD", (call) => {
    lab.plugins.work(call);
    const interfaces = [{ name: "veth0" }, { name: "eth0", sandbox: netns }];
    return exited(0, {
      cniVersion: "1.0.0",
      interfaces,
      ips: [{ address: "10.0.0.1/24", interface: 1 }],
    });
  });
  await lab.add();
  lab.kernel.removeLink(netns, "eth0");
  lab.kernel.addLink(netns, "eth0", ["10.0.0.1/24", "fe80::1/64"]);
  expect(await lab.check()).toMatchObject({ exitCode: 0 });
});

test.each([
  ["with disableCheck", { ...network("net-a", "bridge"), disableCheck: true }],
  ["of CNI 0.3.1", { ...network("net-a", "bridge"), cniVersion: "0.3.1" }],
])("check() skips a network %s and its interface [R-1.0-25]", async (_, conf) => {
  const lab = await attachedAskingAll(conf);
  lab.kernel.removeLink(netns, "net1");
  expect(await lab.check(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["ptp CHECK eth0"]);
});

test("check() fails for an attachment whose ADD did not complete", async () => {
  const lab = await attached();
  await lab.del(web);
  const host = lab.host();
  host.goesAt = 0;
  await expect(lab.add({ ...web, host })).rejects.toThrow();
  lab.plugins.calls.length = 0;
  expect((await lab.check(web)).json).toMatchObject({
    code: 999,
    msg: "network default-net (eth0): its ADD was not completed",
  });
  expect(lab.plugins.log()).toEqual([]);
});

test("check() fails for a partly detached sandbox, even if the other attachments are intact", async () => {
  const lab = await attached();
  lab.plugins.script("ptp DEL", failed(5, "lease locked"));
  await lab.del(web);
  lab.plugins.calls.length = 0;
  expectError(await lab.check(web), 999, "lease locked");
  expect(lab.plugins.log()).toEqual([]);
});

test("check() fails if it cannot enter the namespace", async () => {
  const lab = await attached();
  lab.kernel.removeNamespace(netns);
  expectError(await lab.check(web), 8, netns);
  expect(lab.plugins.log()).toEqual([]);
});

test("check() refuses a conf of CNI 0.3.1 [R-0.4-24]", async () => {
  const lab = await attached();
  const { json } = await lab.check({ ...web, conf: { cniVersion: "0.3.1" } });
  expect(json).toMatchObject({ cniVersion: "0.3.1", code: 1 });
});
