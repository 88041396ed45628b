import { expect, test } from "vitest";
import type { EngineConfig } from "#engine/config.ts";
import { type HotPlugLab, hotPlugLab } from "#engine/hotplug/testing/hot-plug-lab.ts";
import { noSandboxHosts } from "#engine/ports/empty-ports.ts";
import { netns } from "#engine/testing/engine-lab.ts";
import { exited, interfaceResult } from "#engine/testing/fake-plugins.ts";

async function inspect({ lab, hosts, pod }: HotPlugLab) {
  return lab.engine.inspect(pod(), { hosts, conf: async () => lab.conf });
}

async function attachedWith(...inspected: EngineConfig["inspect"]): Promise<HotPlugLab> {
  const own = await hotPlugLab("a,b", {}, { config: { inspect: inspected } });
  own.newEvents();
  return own;
}

test("an interface of a user-space driver, which the kernel does not have, is not lost", async () => {
  const own = await hotPlugLab("a", {}, { config: { inspect: ["heal"] } });
  own.lab.plugins.script("macvlan ADD", (call) => exited(0, interfaceResult(call, "10.1.0.1/24")));
  await own.edit("a,b");
  own.newEvents();
  expect(own.lab.kernel.linkNames(netns)).toEqual(["eth0", "net1"]);
  expect(await inspect(own)).toEqual({ lost: [], willHeal: false });
  expect(own.newEvents()).toEqual([]);
});

test.each([
  [[], { lost: [], willHeal: false }, []],
  [["addresses"], { lost: [], willHeal: false }, []],
  [
    ["interfaces"],
    { lost: [expect.objectContaining({ reason: "InterfaceLost" })], willHeal: false },
    [
      expect.stringMatching(
        /^InterfaceLost: interface net1 of network default\/a .*delete the pod/,
      ),
    ],
  ],
  [
    ["interfaces", "heal"],
    { lost: [expect.objectContaining({ reason: "InterfaceLost" })], willHeal: true },
    [
      expect.stringMatching(
        /^InterfaceLost: interface net1 of network default\/a .*attached again/,
      ),
    ],
  ],
] as const)("an interface disappears, with inspect: %j [H-39]", async (keys, found, events) => {
  const own = await attachedWith(...keys);
  own.lab.kernel.removeLink(netns, "net1");
  expect(await inspect(own)).toEqual(found);
  expect(own.newEvents()).toEqual(events);
});

test("an inspection does not have the agent wait for what plugins have left running, a change does", async () => {
  const own = await attachedWith("heal");
  own.lab.kernel.removeLink(netns, "net1");
  own.hosts.opened.length = 0;
  await inspect(own);
  await own.again();
  expect(own.hosts.opened.map(({ isInspection = false }) => isInspection)).toEqual([true, false]);
});

test("a lost interface is reported once, and again after it was there", async () => {
  const own = await attachedWith("interfaces");
  own.lab.kernel.removeLink(netns, "net1");
  await inspect(own);
  await inspect(own);
  expect(own.newEvents()).toHaveLength(1);
  own.lab.kernel.addLink(netns, "net1", []);
  await inspect(own);
  own.lab.kernel.removeLink(netns, "net1");
  await inspect(own);
  expect(own.newEvents()).toHaveLength(1);
});

test("with inspect: [heal], the network is removed and attached again, and no other is touched [H-39]", async () => {
  const own = await attachedWith("heal");
  const before = own.shown();
  own.lab.kernel.removeLink(netns, "net1");
  await inspect(own);
  own.lab.plugins.calls.length = 0;
  expect(await own.again()).toMatchObject({ state: "settled" });
  expect(own.lab.plugins.log()).toEqual(["bridge DEL net1", "bridge ADD net1"]);
  expect(own.shown().toSorted()).toEqual(before.toSorted());
  expect(await inspect(own)).toEqual({ lost: [], willHeal: false });
});

test.each([
  { config: { hotPlug: false }, heals: false },
  { config: { hotPlug: ["shop"] }, heals: false },
  { config: { hotPlug: ["shop", "default"] }, heals: true },
])("with inspect: [heal] and $config, a lost interface is restored: $heals", async (scene) => {
  const own = await attachedWith("heal");
  own.lab.config = { ...own.lab.config, ...scene.config };
  own.lab.kernel.removeLink(netns, "net1");
  expect(await inspect(own)).toEqual({
    lost: [expect.objectContaining({ reason: "InterfaceLost" })],
    willHeal: scene.heals,
  });
  const next = scene.heals ? "it is attached again" : "delete the pod";
  expect(own.newEvents()).toEqual([expect.stringContaining(next)]);
  const state = scene.heals ? "detaching" : "attached";
  expect((await own.attachments())[1]).toMatchObject({ state });
  expect(own.lab.journal).toEqual(scene.heals ? ["update c1@eth0"] : []);
});

test("with hot-plug, an event says how to attach a lost network again", async () => {
  const own = await attachedWith("interfaces");
  own.lab.kernel.removeLink(netns, "net1");
  await inspect(own);
  const step = "run kubectl plexus refresh default/web net1, or delete the pod";
  expect(own.newEvents()).toEqual([expect.stringContaining(step)]);
});

test("the default network is reported only: its plugins belong to the runtime's call", async () => {
  const own = await attachedWith("heal");
  own.lab.kernel.removeLink(netns, "eth0");
  expect(await inspect(own)).toEqual({
    lost: [expect.objectContaining({ reason: "InterfaceLost" })],
    willHeal: false,
  });
  expect(own.newEvents()).toEqual([expect.stringContaining("delete the pod")]);
});

test("CHECK leaves out a network whose hot-plug was interrupted, or is to be repeated", async () => {
  const own = await attachedWith("heal");
  own.lab.kernel.removeLink(netns, "net1");
  expect(await own.lab.check({ pod: "default/web" })).toMatchObject({ exitCode: 1 });
  await inspect(own);
  expect(await own.lab.check({ pod: "default/web" })).toMatchObject({ exitCode: 0 });
});

test("a network that is about to be attached again, or whose ADD was interrupted, is not lost", async () => {
  const own = await attachedWith("heal");
  own.lab.kernel.removeLink(netns, "net1");
  expect(await inspect(own)).toMatchObject({ willHeal: true });
  // Its record is there, without a result.
  own.hosts.goesAt = 3;
  await own.edit("a@net1,b,c");
  own.hosts.goesAt = Number.POSITIVE_INFINITY;
  const { writes } = own.lab.records;
  const before = writes.length;
  expect(await inspect(own)).toEqual({ lost: [], willHeal: false });
  expect(writes).toHaveLength(before);
});

test("without an agent, nothing is looked at", async () => {
  const { lab, pod } = await attachedWith("heal");
  const looking = lab.engine.inspect(pod(), { hosts: noSandboxHosts, conf: async () => lab.conf });
  expect(await looking).toEqual({ lost: [], willHeal: false });
});
