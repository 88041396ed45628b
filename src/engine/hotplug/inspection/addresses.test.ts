import { expect, test } from "vitest";
import type { EngineConfig } from "#engine/config.ts";
import { type HotPlugLab, hotPlugLab } from "#engine/hotplug/testing/hot-plug-lab.ts";
import { type EngineLab, netns, sandbox } from "#engine/testing/engine-lab.ts";
import { exited, interfaceResult } from "#engine/testing/fake-plugins.ts";

interface Seen {
  readonly pod: HotPlugLab;
  /** `interface: addresses` of each entry of the status after a look at the pod. */
  look(): Promise<string[]>;
}

async function attached(config: Partial<EngineConfig> = { inspect: ["addresses"] }): Promise<Seen> {
  const pod = await hotPlugLab("a,b", {}, { config });
  const look = async (): Promise<string[]> => {
    const { lab, hosts } = pod;
    await lab.engine.inspect(pod.pod(), { hosts, conf: async () => lab.conf });
    await new Promise(setImmediate);
    const entries = lab.publisher.status("default/web");
    return entries.map(({ interface: name, ips }) => `${name}: ${ips}`);
  };
  return { pod, look };
}

test("the status shows the addresses that interfaces have got, and the record keeps the result [S-308]", async () => {
  const { pod, look } = await attached();
  const before = await look();
  const results = (await pod.attachments()).map(({ result }) => result);
  const writes = pod.lab.records.writes.length;
  expect(await look()).toEqual(before);
  expect(pod.lab.records.writes).toHaveLength(writes);
  pod.lab.kernel.addAddresses(netns, "net1", ["fd00::7/64"]);
  const [eth0, net1, net2] = before;
  expect(await look()).toEqual([eth0, `${net1},fd00::7`, net2]);
  expect((await pod.attachments()).map(({ result }) => result)).toEqual(results);
  await pod.edit("a");
  expect(await look()).toEqual([eth0, `${net1},fd00::7`]);
  pod.lab.kernel.removeLink(netns, "net1");
  pod.lab.kernel.addLink(netns, "net1", []);
  // A virtual machine may use the address.
  expect(await look()).toEqual([eth0, net1]);
  pod.lab.kernel.removeLink(netns, "net1");
  expect(await look()).toEqual([eth0, net1]);
});

test("the status shows at most 16 addresses of an interface, those of the ADD first [S-308]", async () => {
  const { pod, look } = await attached();
  const [, before] = await look();
  const many = Array.from({ length: 40 }, (_, i) => `10.99.0.${i + 1}/24`);
  pod.lab.kernel.addAddresses(netns, "net1", many);
  const [, net1] = await look();
  expect(net1?.startsWith(`${before},10.99.0.1,`)).toBe(true);
  expect(net1?.split(",")).toHaveLength(16);
  const writes = pod.lab.records.writes.length;
  await look();
  expect(pod.lab.records.writes).toHaveLength(writes);
});

test("an interface whose address changed shows the new one alone, without those of its link [S-308]", async () => {
  const { pod, look } = await attached();
  const [, , net2] = await look();
  const { kernel } = pod.lab;
  kernel.removeLink(netns, "net1");
  kernel.addLink(netns, "net1", ["10.99.0.1/24"]);
  kernel.addAddresses(netns, "net1", ["fe80::1/64"]);
  kernel.addAddresses(netns, "net2", ["fe80::2/64"]);
  expect((await look()).slice(1)).toEqual(["net1: 10.99.0.1", net2]);
});

test("the first look at addresses that are those of the results writes nothing, in whatever form these are", async () => {
  const { pod, look } = await attached();
  pod.lab.plugins.script("ipvlan ADD", (call) => {
    const { cniVersion: _, ...result } = interfaceResult(call, "FD00:0:0:0::7/64");
    pod.lab.kernel.addLink(netns, call.ifName, ["fd00::7/64"]);
    return exited(0, result);
  });
  await pod.edit("a,b,c");
  // An interrupted operation leaves an attachment without a result.
  pod.hosts.goesAt = 7;
  expect(await pod.edit("a,b,c,a@x1")).toMatchObject({ state: "failed" });
  expect((await pod.attachments()).at(-1)).toMatchObject({ state: "attempted" });
  pod.hosts.goesAt = Number.POSITIVE_INFINITY;
  const writes = pod.lab.records.writes.length;
  expect(await look()).toContain("net3: fd00::7");
  expect(pod.lab.records.writes).toHaveLength(writes);
});

test.each([
  { inspect: [], looks: 0 },
  { inspect: ["interfaces"], looks: 2 },
  { inspect: ["heal"], looks: 2 },
] as const)("inspect: $inspect has the agent look $looks times", async ({ inspect, looks }) => {
  const { pod, look } = await attached({ inspect });
  const before = await look();
  pod.lab.kernel.addAddresses(netns, "net1", ["fd00::7/64"]);
  expect(await look()).toEqual(before);
  expect([pod.hosts.opened.length, pod.hosts.orders]).toEqual([looks, 2 * looks]);
});

type Changed = (lab: EngineLab) => unknown;

const beginDel: Changed = ({ records }) => records.beginDel(sandbox, "2026-01-01T00:00:00Z");
const finish: Changed = ({ records }) => records.remove(sandbox);

test.each([
  { when: "its DEL has begun", before: beginDel },
  { when: "its DEL begins while the agent opens it", meanwhile: beginDel },
  { when: "it is detached while the agent opens it", meanwhile: finish },
] as { when: string; before?: Changed; meanwhile?: Changed }[])(
  "a look at a sandbox finds and publishes nothing when $when",
  async ({ before, meanwhile }) => {
    const { pod } = await attached({ inspect: ["heal", "addresses"] });
    const { lab, hosts } = pod;
    lab.kernel.addAddresses(netns, "net1", ["fd00::7/64"]);
    lab.kernel.removeLink(netns, "net2");
    const open = hosts.open.bind(hosts);
    hosts.open = async (opened) => {
      await meanwhile?.(lab);
      lab.journal.length = 0;
      return open(opened);
    };
    await before?.(lab);
    lab.journal.length = 0;
    const found = await lab.engine.inspect(pod.pod(), { hosts, conf: async () => lab.conf });
    expect(found).toEqual({ lost: [], willHeal: false });
    expect(lab.journal).toEqual([]);
  },
);
