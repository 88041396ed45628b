import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import { type EngineLab, netns, network } from "#engine/testing/engine-lab.ts";
import { exited, failed, interfaceResult } from "#engine/testing/fake-plugins.ts";
import type { JsonObject } from "#lib/json.ts";
import { type HotPlugLab, hotPlugLab } from "./testing/hot-plug-lab.ts";

const eth0 = "eth0 default-net";

test("an element gets no interface that something else has made in the sandbox", async () => {
  const pod = await hotPlugLab("a");
  pod.lab.kernel.addLink(netns, "net2");
  expect(await pod.edit("b,c")).toMatchObject({ state: "settled" });
  expect(await pod.recorded()).toEqual([eth0, "net1 default/b", "net3 default/c"]);
});

test("an element without interface keeps its name when its settings change, not a lower one", async () => {
  const pod = await hotPlugLab("b,a");
  expect(await pod.edit([{ name: "a", "cni-args": { vlan: 7 } }])).toMatchObject({
    state: "settled",
  });
  expect(await pod.recorded()).toEqual([eth0, "net2 default/a"]);
});

test("an element gets no interface of a network that could not be detached, even if the interface is gone", async () => {
  const pod = await hotPlugLab("b,a@x1");
  pod.lab.plugins.script("macvlan DEL", failed(7, "no server answers"));
  await pod.edit("a@x1");
  pod.lab.kernel.removeLink(netns, "net1");
  await pod.edit("a");
  expect(await pod.recorded()).toEqual([eth0, "net1 default/b", "net2 default/a"]);
});

test("an element that cannot be attached keeps no others from exchanging their interfaces", async () => {
  const pod = await hotPlugLab("a@x1,b@x2,c@x3");
  expect(await pod.edit("b@x1,a@x2,nope@x3")).toMatchObject({ state: "failed" });
  expect((await pod.recorded()).toSorted()).toEqual([
    ...[eth0, "x1 default/b", "x2 default/a", "x3 default/c"],
  ]);
});

test("a network that keeps its place for an element that cannot be attached is not attached elsewhere", async () => {
  const pod = await hotPlugLab("a@x1");
  expect(await pod.edit("nope@x1,a")).toMatchObject({
    state: "failed",
    problems: [
      { network: "default/nope", ifName: "x1" },
      { network: "default/a", error: { code: 11, message: expect.stringContaining("on x1") } },
    ],
  });
  expect([pod.lab.plugins.log(), await pod.recorded()]).toEqual([[], [eth0, "x1 default/a"]]);
});

test("an element that cannot be attached does not keep a network where another element moves it from", async () => {
  const pod = await hotPlugLab("a@x1,b@x2");
  await pod.edit("a@x2,nope");
  expect(await pod.recorded()).toEqual([eth0, "x2 default/a"]);
});

/** A pod whose network `a` on x1 could not be detached, and can be now. */
async function owed(annotation: string, without: string): Promise<HotPlugLab> {
  const pod = await hotPlugLab(annotation);
  pod.lab.plugins.script("bridge DEL", failed(7, "no server answers"));
  await pod.edit(without);
  pod.lab.plugins.unscript("bridge DEL");
  return pod;
}

test("a network that could not be detached is, although another element takes its place in vain", async () => {
  const pod = await owed("a@x1,b@x2", "b@x2");
  await pod.edit("nope@x1,a@x2");
  expect(await pod.recorded()).toEqual([eth0, "x2 default/a"]);
});

test("an element that cannot be attached keeps networks that work, and none that could not be detached", async () => {
  const pod = await owed("a@x1,b", "b");
  await pod.edit("nope");
  expect(await pod.recorded()).toEqual([eth0, "net2 default/b"]);
});

test.each([
  { from: "a@x1,vf@x2,c@x3", to: "vf@x1,a@x2", left: ["x1 default/a", "x2 default/vf"] },
  { from: "vf@x1,b@x2,c@x3", to: "vf@x2", left: ["x1 default/vf", "x2 default/b"] },
])(
  "a move from $from to $to that has to wait for devices only detaches what no element requests",
  async ({ from, to, left }) => {
    const resource = "vendor.example/nic";
    const devices = new Map([[resource, [{ id: "0000:01:00.1", source: "claim" }]]]);
    let isKnown = true;
    const devicesOf = async () => {
      if (!isKnown) throw new CniError("TryAgainLater", "the kubelet does not answer");
      return devices;
    };
    const prepare = ({ source }: EngineLab): void =>
      source.addNad("default/vf", network("net-vf", "host-device"), {
        "k8s.v1.cni.cncf.io/resourceName": resource,
      });
    const options = { deviceSources: [{ devicesOf }], prepare };
    const pod = await hotPlugLab(from, {}, options);
    isKnown = false;
    expect(await pod.edit(to)).toMatchObject({ state: "failed" });
    expect(await pod.recorded()).toEqual([eth0, ...left]);
  },
);

test("an agent that disconnects while plugins are looked up is no problem of an element", async () => {
  const pod = await hotPlugLab("a");
  pod.hosts.goesAt = 0;
  expect(await pod.edit("a,b")).toMatchObject({ state: "failed" });
  expect(pod.newEvents()).toEqual([]);
});

test("an element is rejected if the record would be too large with the results of the others", async () => {
  const filled = (name: string, size: number, types: string[]): JsonObject => ({
    ...network(name, ...types),
    filler: "x".repeat(size),
  });
  const prepare = ({ plugins, source }: EngineLab): void => {
    plugins.script("bridge ADD", (call) =>
      exited(0, { ...interfaceResult(call, "10.1.0.1/24"), filler: "x".repeat(250_000) }),
    );
    source.addNad("default/b", filled("net-b", 120_000, ["macvlan"]));
  };
  const chained = Array.from({ length: 14 }, () => "tuning");
  const pod = await hotPlugLab("a", { a: ["bridge", ...chained] }, { prepare });
  pod.lab.plugins.unscript("bridge ADD");
  await pod.edit("a,b");
  expect(pod.newEvents()).toEqual([expect.stringMatching(/InterfaceAddRejected: .*limit/)]);
  expect(await pod.recorded()).toEqual([eth0, "net1 default/a"]);
});

const withIps = (type: string): JsonObject => ({
  ...network(`net-${type}`),
  plugins: [{ type, capabilities: { ips: true } }],
});

/** Both definitions with the capability `ips`. */
function addWithIps({ source }: EngineLab): void {
  source.addNad("default/a", withIps("bridge"));
  source.addNad("default/b", withIps("macvlan"));
}

/** The addresses that each ADD asked for. */
const askedOf = ({ lab }: HotPlugLab): unknown[] =>
  lab.plugins.calls
    .filter(({ command }) => command === "ADD")
    .map(({ conf }) => (conf.runtimeConfig as JsonObject | undefined)?.ips);

test.each([
  { how: "is new", from: "a@x1", to: "a@x1,b" },
  { how: "replaces another one", from: "a@x1", to: "b@x1" },
])("an element that $how gets addresses of its IPAM", async ({ from, to }) => {
  const pod = await hotPlugLab(from, {}, { prepare: addWithIps });
  expect(await pod.edit(to)).toMatchObject({ state: "settled" });
  expect(askedOf(pod)).toEqual([undefined]);
});

test.each([
  { how: "has none", addresses: [], element: {}, asked: undefined },
  {
    how: "has more than its element requests",
    addresses: ["10.0.0.9/24", "fd00::9/64"],
    element: { ips: ["10.0.0.9/24"] },
    asked: ["10.0.0.9/24"],
  },
])("a refreshed network does not keep its addresses if it $how", async (scene) => {
  const prepare = (lab: EngineLab): void => {
    addWithIps(lab);
    lab.plugins.script("bridge ADD", (call) => {
      lab.kernel.addLink(netns, call.ifName, scene.addresses);
      return exited(0, interfaceResult(call, scene.addresses));
    });
  };
  const pod = await hotPlugLab([{ name: "a", ...scene.element }], {}, { prepare });
  expect(await pod.again("net1")).toMatchObject({ state: "settled" });
  expect(askedOf(pod)).toEqual([scene.asked]);
});

test.each([
  { from: "a", to: "a@net1", ifName: "net1" },
  { from: "a@net7", to: "a", ifName: "net7" },
])(
  "a network that an edit from $from to $to left keeps interface and addresses when it is refreshed",
  async ({ from, to, ifName }) => {
    const pod = await hotPlugLab(from, {}, { prepare: addWithIps });
    await pod.edit(to);
    expect(pod.lab.plugins.log()).toEqual([]);
    expect(await pod.again(ifName)).toMatchObject({ state: "settled" });
    expect(await pod.recorded()).toEqual([eth0, `${ifName} default/a`]);
    expect(askedOf(pod)).toEqual([[expect.stringMatching(/^10\./)]]);
  },
);

test("a network that was never attached asks for no addresses", async () => {
  const pod = await hotPlugLab("", {}, { prepare: addWithIps });
  for (const call of ["bridge ADD", "bridge DEL"]) pod.lab.plugins.script(call, failed(7, "no"));
  await pod.edit("a");
  for (const call of ["bridge ADD", "bridge DEL"]) pod.lab.plugins.unscript(call);
  expect(await pod.again()).toMatchObject({ state: "settled" });
  expect(askedOf(pod)).toEqual([undefined, undefined]);
});

test("a refreshed network without the capability for addresses is tried once, then as it was", async () => {
  const pod = await hotPlugLab("a");
  pod.lab.plugins.script("bridge ADD", failed(7, "no"));
  await pod.again("net1");
  expect(pod.lab.plugins.log("ADD")).toEqual(["bridge ADD net1", "bridge ADD net1"]);
});
