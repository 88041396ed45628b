import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import { type EngineLab, network } from "#engine/testing/engine-lab.ts";
import { failed } from "#engine/testing/fake-plugins.ts";
import { type HotPlugLab, hotPlugLab } from "./testing/hot-plug-lab.ts";

const count = ({ lab }: HotPlugLab): Promise<number> => lab.engine.countOutdated(lab.conf);

test("an attachment is outdated after its definition changed, until it is plugged anew [H-28]", async () => {
  const pod = await hotPlugLab('[{"name":"a","cni-args":{"one":1}},{"name":"b"}]');
  expect(await count(pod)).toBe(0);
  pod.lab.source.addNad("default/a", network("net-a", "vlan"));
  expect(await count(pod)).toBe(1);
  expect(await pod.again()).toMatchObject({ state: "settled", operations: [] });
  expect(await pod.again("net1")).toMatchObject({
    state: "settled",
    operations: [
      { op: "remove", ifName: "net1", result: "success" },
      { op: "add", ifName: "net1", result: "success" },
    ],
  });
  expect(pod.lab.plugins.log()).toEqual(["bridge DEL net1", "vlan ADD net1"]);
  expect(await count(pod)).toBe(0);
  expect(pod.shown().toSorted()).toEqual((await pod.recorded()).toSorted());
});

test("a network with a device is not outdated because of the device", async () => {
  const devices = new Map([["vendor.example/nic", [{ id: "0000:01:00.1", source: "claim" }]]]);
  const pod = await hotPlugLab("a", {}, { deviceSources: [{ devicesOf: async () => devices }] });
  const resource = { "k8s.v1.cni.cncf.io/resourceName": "vendor.example/nic" };
  pod.lab.source.addNad("default/b", network("net-b", "host-device"), resource);
  await pod.edit("a,b");
  expect(await count(pod)).toBe(0);
  expect(await pod.again("net2")).toMatchObject({ state: "settled" });
  expect(pod.lab.plugins.of("host-device", "ADD")[1]?.conf.deviceID).toBe("0000:01:00.1");
});

test.each([
  {
    why: "its definition is gone",
    prepare: ({ lab }: HotPlugLab) => lab.source.removeNad("default/a"),
  },
  {
    why: "its definition is invalid",
    prepare: ({ lab }: HotPlugLab) => lab.source.addNad("default/a", "{"),
  },
  {
    why: "its definition is too large",
    prepare: ({ lab }: HotPlugLab) =>
      lab.source.addNad("default/a", { ...network("net-a", "vlan"), filler: "x".repeat(140_000) }),
  },
])("a network is not plugged anew if $why, and is not outdated", async ({ prepare }) => {
  const pod = await hotPlugLab("a");
  prepare(pod);
  expect(await count(pod)).toBe(0);
  expect(await pod.again("net1")).toMatchObject({
    state: "settled",
    operations: [],
    problems: [{ network: "default/a", ifName: "net1" }],
  });
  expect(pod.lab.plugins.log()).toEqual([]);
});

test("a network that could not be detached is not outdated", async () => {
  const pod = await hotPlugLab("a");
  pod.lab.plugins.script("bridge DEL", failed(7, "no server answers"));
  await pod.edit("");
  pod.lab.source.addNad("default/a", network("net-a", "vlan"));
  expect(await count(pod)).toBe(0);
});

test("a configured network, which cannot be refreshed, is not outdated", async () => {
  const prepare = ({ source }: EngineLab): void => {
    source.addNad("kube-system/main", network("main", "ptp"));
    source.addNad("kube-system/extra", network("extra", "vlan"));
  };
  const config = { clusterNetwork: "main", defaultNetworks: ["extra"] };
  const pod = await hotPlugLab("a", {}, { conf: {}, config, prepare });
  pod.lab.source.addNad("kube-system/extra", network("extra", "macvlan"));
  expect(await count(pod)).toBe(0);
});

test.each([
  { why: "the API server does not answer", failure: new CniError("ApiUnavailable", "no answer") },
  { why: "of a defect", failure: new Error("no answer") },
])("outdated networks are not counted if a definition is not read because $why", async (scene) => {
  const pod = await hotPlugLab("a");
  pod.lab.source.failure = scene.failure;
  await expect(count(pod)).rejects.toThrow("no answer");
});

test.each(["eth0", "net9"])("interface %s cannot be plugged anew", async (ifName) => {
  const pod = await hotPlugLab("a");
  expect(await pod.again(ifName)).toMatchObject({ state: "settled", operations: [] });
  expect(pod.lab.plugins.log()).toEqual([]);
});

test("a network is plugged anew while another element is rejected, which stays stated", async () => {
  const pod = await hotPlugLab("a,b");
  await pod.edit("a,c,nope");
  const found = () => pod.lab.engine.findings.of(pod.pod());
  const before = found();
  expect(before).toHaveLength(1);
  expect(await pod.again("net1")).toMatchObject({
    operations: [
      { op: "remove", ifName: "net1", result: "success" },
      { op: "add", ifName: "net1", result: "success" },
    ],
    problems: [],
  });
  expect(pod.lab.plugins.log()).toEqual(["bridge DEL net1", "bridge ADD net1"]);
  expect(found()).toEqual(before);
});
