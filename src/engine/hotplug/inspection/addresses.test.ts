import { expect, test } from "vitest";
import { type HotPlugLab, hotPlugLab } from "#engine/hotplug/testing/hot-plug-lab.ts";
import { netns, sandbox } from "#engine/testing/engine-lab.ts";

interface Seen {
  readonly pod: HotPlugLab;
  /** `interface: addresses` of each entry of the status after a look at the pod. */
  look(): Promise<string[]>;
}

async function attached(watchAddresses = true): Promise<Seen> {
  const pod = await hotPlugLab("a,b", {}, { config: { watchAddresses } });
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
  expect((await pod.lab.records.load(sandbox))?.record.pendingStatus).toBeUndefined();
  await pod.edit("a");
  expect(await look()).toEqual([eth0, `${net1},fd00::7`]);
  pod.lab.kernel.removeLink(netns, "net1");
  pod.lab.kernel.addLink(netns, "net1", []);
  // A virtual machine may use the address.
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

test("without watchAddresses, the status stays as the ADD reported it", async () => {
  const { pod, look } = await attached(false);
  const before = await look();
  pod.lab.kernel.addAddresses(netns, "net1", ["fd00::7/64"]);
  expect([await look(), pod.hosts.orders]).toEqual([before, 0]);
});

test("nothing is published once the sandbox's DEL has begun", async () => {
  const { pod, look } = await attached();
  pod.lab.kernel.addAddresses(netns, "net1", ["fd00::7/64"]);
  pod.lab.records.beginDel(sandbox, new Date().toISOString());
  const writes = pod.lab.records.writes.length;
  await look();
  expect(pod.lab.records.writes).toHaveLength(writes);
});
