import { expect, test } from "vitest";
import { type HotPlugLab, hotPlugLab } from "#engine/hotplug/testing/hot-plug-lab.ts";
import { netns } from "#engine/testing/engine-lab.ts";

async function inspect({ lab, hosts, pod }: HotPlugLab) {
  return lab.engine.inspect(pod(), { hosts, conf: async () => lab.conf });
}

async function attachedWith(heal: false | "report" | true): Promise<HotPlugLab> {
  const own = await hotPlugLab("a,b", {}, { config: { heal } });
  own.newEvents();
  return own;
}

test("interfaces that are there are no event [H-39]", async () => {
  const own = await attachedWith(true);
  expect(await inspect(own)).toEqual({ lost: [], willHeal: false });
  expect(own.newEvents()).toEqual([]);
});

test.each([
  [false, { lost: [], willHeal: false }, []],
  [
    "report",
    { lost: [expect.any(String)], willHeal: false },
    [
      expect.stringMatching(
        /^InterfaceLost: interface net1 of network default\/a .*delete the pod/,
      ),
    ],
  ],
  [
    true,
    { lost: [expect.any(String)], willHeal: true },
    [
      expect.stringMatching(
        /^InterfaceLost: interface net1 of network default\/a .*attached again/,
      ),
    ],
  ],
] as const)("an interface that disappears, with heal: %j [H-39]", async (heal, found, events) => {
  const own = await attachedWith(heal);
  own.lab.kernel.removeLink(netns, "net1");
  expect(await inspect(own)).toEqual(found);
  expect(own.newEvents()).toEqual(events);
});

test("an inspection does not have the agent wait for what plugins have left running, a change does", async () => {
  const own = await attachedWith(true);
  own.lab.kernel.removeLink(netns, "net1");
  own.hosts.opened.length = 0;
  await inspect(own);
  await own.again();
  expect(own.hosts.opened.map(({ isInspection = false }) => isInspection)).toEqual([true, false]);
});

test("a lost interface is reported once, and again after it was there", async () => {
  const own = await attachedWith("report");
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

test("with heal: true, the network is removed and attached again, and no other is touched [H-39]", async () => {
  const own = await attachedWith(true);
  const before = own.shown();
  own.lab.kernel.removeLink(netns, "net1");
  await inspect(own);
  own.lab.plugins.calls.length = 0;
  expect(await own.again()).toMatchObject({ state: "settled" });
  expect(own.lab.plugins.log()).toEqual(["bridge DEL net1", "bridge ADD net1"]);
  expect(own.shown().toSorted()).toEqual(before.toSorted());
  expect(await inspect(own)).toEqual({ lost: [], willHeal: false });
});

test.each([{ hotPlug: "off" }, { hotPlug: "on", hotPlugNamespaces: ["shop"] }] as const)(
  "with heal: true and %j, a lost interface is reported only",
  async (config) => {
    const own = await attachedWith(true);
    own.lab.config = { ...own.lab.config, ...config };
    own.lab.kernel.removeLink(netns, "net1");
    expect(await inspect(own)).toEqual({ lost: [expect.any(String)], willHeal: false });
    expect(own.newEvents()).toEqual([expect.stringContaining("delete the pod")]);
    expect((await own.attachments())[1]).toMatchObject({ state: "attached" });
  },
);

test("the default network is reported only: its plugins belong to the runtime's call", async () => {
  const own = await attachedWith(true);
  own.lab.kernel.removeLink(netns, "eth0");
  expect(await inspect(own)).toEqual({ lost: [expect.any(String)], willHeal: false });
  expect(own.newEvents()).toEqual([expect.stringContaining("delete the pod")]);
});

test("CHECK leaves out a network whose hot-plug was interrupted, or is to be repeated", async () => {
  const own = await attachedWith(true);
  own.lab.kernel.removeLink(netns, "net1");
  expect(await own.lab.check({ pod: "default/web" })).toMatchObject({ exitCode: 1 });
  await inspect(own);
  expect(await own.lab.check({ pod: "default/web" })).toMatchObject({ exitCode: 0 });
});
