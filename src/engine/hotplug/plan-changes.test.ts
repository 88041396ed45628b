import { expect, test } from "vitest";
import { type EngineLab, netns, network } from "#engine/testing/engine-lab.ts";
import { exited, failed, interfaceResult } from "#engine/testing/fake-plugins.ts";
import type { JsonObject } from "#lib/json.ts";
import { type HotPlugLab, hotPlugLab } from "./testing/hot-plug-lab.ts";

const eth0 = "eth0 default-net";

test("an element gets no interface of a network that could not be detached, even if the interface is gone", async () => {
  const pod = await hotPlugLab("b,a@x1");
  pod.lab.plugins.script("macvlan DEL", failed(7, "no server answers"));
  await pod.edit("a@x1");
  pod.lab.kernel.removeLink(netns, "net1");
  await pod.edit("a");
  expect(await pod.recorded()).toEqual([eth0, "net1 default/b", "net2 default/a"]);
});

test("a network whose interface could not be detached gets no other one's device", async () => {
  const resource = "vendor.example/nic";
  const devices = new Map([[resource, [{ id: "0000:01:00.1", source: "claim" }]]]);
  const prepare = ({ source }: EngineLab): void => {
    for (const name of ["vf", "other"])
      source.addNad(`default/${name}`, network(`net-${name}`, "host-device"), {
        "k8s.v1.cni.cncf.io/resourceName": resource,
      });
  };
  const deviceSources = [{ devicesOf: async () => devices }];
  const pod = await hotPlugLab("vf@x1", {}, { deviceSources, prepare });
  pod.lab.plugins.script("host-device DEL", failed(7, "busy"));
  expect(await pod.edit("other@x2")).toMatchObject({ state: "failed" });
  expect(pod.lab.plugins.log()).toEqual(["host-device DEL x1"]);
  pod.lab.plugins.unscript("host-device DEL");
  expect(await pod.again()).toMatchObject({ state: "settled" });
  expect(await pod.recorded()).toEqual([eth0, "x2 default/other"]);
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
])("a refresh after an edit of $from to $to keeps the addresses", async ({ from, to, ifName }) => {
  const pod = await hotPlugLab(from, {}, { prepare: addWithIps });
  await pod.edit(to);
  expect(pod.lab.plugins.log()).toEqual([]);
  expect(await pod.again(ifName)).toMatchObject({ state: "settled" });
  expect(await pod.recorded()).toEqual([eth0, `${ifName} default/a`]);
  expect(askedOf(pod)).toEqual([[expect.stringMatching(/^10\./)]]);
});

test("a network that was never attached asks for no addresses", async () => {
  const pod = await hotPlugLab("", {}, { prepare: addWithIps });
  for (const call of ["bridge ADD", "bridge DEL"]) pod.lab.plugins.script(call, failed(7, "no"));
  await pod.edit("a");
  for (const call of ["bridge ADD", "bridge DEL"]) pod.lab.plugins.unscript(call);
  expect(await pod.again()).toMatchObject({ state: "settled" });
  expect(askedOf(pod)).toEqual([undefined, undefined]);
});
