import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import type { DelegateOutcome } from "#cni/runtime/delegate.ts";
import { type EngineLab, netns, network, sandbox } from "#engine/testing/engine-lab.ts";
import { exited, failed, halfway, interfaceResult } from "#engine/testing/fake-plugins.ts";
import { missing, web } from "#engine/testing/pod-lab.ts";
import type { Json } from "#lib/json.ts";
import { type HotPlugLab, hotPlugLab } from "./testing/hot-plug-lab.ts";

/* What an ADD demands holds for networks of a running pod, too. */

interface BrokenRule {
  readonly rule: string;
  readonly edit: string;
  readonly breakIt?: (lab: EngineLab) => void;
  /** What ends the edit's refusal. */
  readonly mendIt?: (lab: EngineLab) => void;
  readonly event?: RegExp;
}

const ofNode = "/proc/self/ns/net";
const noDevices = new CniError("TryAgainLater", "the kubelet does not answer");

test.each<BrokenRule>([
  {
    rule: "a plugin is installed",
    edit: "b@x1,c",
    breakIt: ({ plugins }) => plugins.setLookup("macvlan", missing),
    mendIt: ({ plugins }) => plugins.setLookup("macvlan", { outcome: "found" }),
    event: /network default\/b \(x1\): failed to find plugin "macvlan"/,
  },
  {
    rule: "an IPAM plugin is installed",
    edit: "ipam@x1,c",
    breakIt: ({ plugins }) => plugins.setLookup("whereabouts", missing),
    mendIt: ({ source }) => source.addNad("default/ipam", network("net-b", "macvlan")),
    event: /network default\/ipam \(x1\): failed to find plugin "whereabouts"/,
  },
  {
    rule: "a link of the node exists",
    edit: "onlink@x1,c",
    mendIt: ({ kernel }) => kernel.addLink(ofNode, "ens2"),
    event: /network default\/onlink \(x1\): the node has no link "ens2"/,
  },
  {
    rule: "a definition exists",
    edit: "b@x1,c",
    breakIt: ({ source }) => source.removeNad("default/b"),
    mendIt: ({ source }) => source.addNad("default/b", network("net-b", "macvlan")),
    event: /network default\/b \(x1\): there is no/,
  },
  { rule: "an interface is free", edit: "b@eth0,c", event: /eth0, .*already exists/ },
  { rule: "an interface has one network", edit: "b@x1,c@x1", event: /x1 is requested by network/ },
  { rule: "devices are known", edit: "vf@x1,c" },
])("an edit changes nothing until all its networks can be attached: $rule", async (scene) => {
  const { edit, breakIt, mendIt, event } = scene;
  const devicesOf = async (): Promise<never> => {
    throw noDevices;
  };
  const pod = await hotPlugLab("a@x1", {}, { deviceSources: [{ devicesOf }] });
  const resource = { "k8s.v1.cni.cncf.io/resourceName": "vendor.example/vf" };
  pod.lab.source.addNad("default/vf", network("net-vf", "sriov"), resource);
  const ofIpam = { type: "macvlan", ipam: { type: "whereabouts" } };
  pod.lab.source.addNad("default/ipam", { ...network("net-ipam"), plugins: [ofIpam] });
  const onLink = { type: "macvlan", master: "ens2" };
  pod.lab.source.addNad("default/onlink", { ...network("net-onlink"), plugins: [onLink] });
  pod.lab.kernel.addNamespace(ofNode);
  pod.newEvents();
  breakIt?.(pod.lab);
  expect(await pod.edit(edit)).toMatchObject({ state: "failed", operations: [] });
  const left = ["eth0 default-net", "x1 default/a"];
  expect([pod.lab.journal, await pod.recorded()]).toEqual([[], left]);
  const rejected = event && new RegExp(`^InterfaceAddRejected: .*${event.source}.*; the pod keeps`);
  expect(pod.newEvents()).toEqual(rejected ? [expect.stringMatching(rejected)] : []);
  if (mendIt === undefined) return;
  mendIt(pod.lab);
  expect(await pod.again()).toMatchObject({ state: "settled" });
  const name = edit.split("@")[0];
  expect(await pod.recorded()).toEqual([
    "eth0 default-net",
    `x1 default/${name}`,
    "net1 default/c",
  ]);
});

test.each([
  { when: "nothing has changed", searched: [] },
  { when: "the runtime has another CNI_PATH now", command: "STATUS", searched: ["/opt/moved"] },
  { when: "nerdctl, with the same list, has another one", command: "DEL", searched: [] },
])("plugins are looked up where the sandbox's DEL will look: $when", async (scene) => {
  const { command, searched } = scene;
  const pod = await hotPlugLab("a");
  if (command !== undefined) {
    const env = { CNI_PATH: "/opt/cni/bin:/opt/moved" };
    const ofPodman = { ...env, CNI_CONTAINERID: "web" };
    const call = { env: command === "STATUS" ? env : ofPodman, conf: { cniVersion: "1.1.0" } };
    expect(await pod.lab.call(command, call)).toMatchObject({ exitCode: 0 });
  }
  await pod.edit("a,b");
  const [first, , plugged] = await pod.attachments();
  expect(plugged?.searchPath).toEqual([...(first?.searchPath ?? []), ...searched]);
});

test("an element keeps its interface over all attempts, while what they leave is owed, and forgotten in the end", async () => {
  const pod = await hotPlugLab("");
  pod.lab.plugins.script("macvlan ADD", halfway(pod.lab, failed(7, "parent link is missing")));
  pod.lab.plugins.script("macvlan DEL", failed(7, "no server answers"));
  for (let attempt = 0; attempt < 4; attempt++) {
    expect(await pod.edit("b")).toMatchObject({ state: "failed" });
    expect(await pod.recorded()).toEqual(["eth0 default-net", "net1 default/b"]);
  }
  expect((await pod.attachments())[1]).toMatchObject({
    state: "owed",
    teardown: { attempts: 4, lastError: expect.stringContaining("no server answers") },
  });
  expect(await pod.lab.check(web)).toMatchObject({ exitCode: 0 });
  pod.lab.kernel.removeLink(netns, "net1");
  pod.lab.plugins.unscript("macvlan ADD");
  expect(await pod.again()).toMatchObject({ state: "settled" });
  expect(pod.newEvents().join()).toMatch(/AttachmentForgotten: .*default\/b \(net1\)/);
  expect(await pod.recorded()).toEqual(["eth0 default-net", "net1 default/b"]);
});

test("a network that cannot replace another one leaves its interface free, and the edit can be undone", async () => {
  const pod = await hotPlugLab("a@x1");
  pod.lab.plugins.script("macvlan ADD", failed(7, "no such VLAN"));
  expect(await pod.edit("b@x1,c@x2")).toMatchObject({
    state: "failed",
    operations: [
      { op: "remove", result: "success" },
      { op: "add", result: "error", error: { message: expect.stringMatching(/no such VLAN/) } },
      { op: "add", result: "success" },
    ],
  });
  expect(await pod.recorded()).toEqual(["eth0 default-net", "x2 default/c"]);
  expect(pod.shown()).toEqual(await pod.recorded());
  expect(await pod.edit("a@x1")).toMatchObject({ state: "settled" });
  expect(await pod.recorded()).toEqual(["eth0 default-net", "x1 default/a"]);
});

test("an element gets no interface that the plugin of an earlier one has made", async () => {
  const pod = await hotPlugLab("");
  pod.lab.plugins.script("bridge ADD", (call) => {
    for (const name of [call.ifName, "net2"]) pod.lab.kernel.addLink(netns, name);
    return exited(0, interfaceResult(call, "10.1.0.1/24"));
  });
  expect(await pod.edit("a,b,c@net3")).toMatchObject({ state: "failed" });
  expect(pod.lab.plugins.log()).toEqual(["bridge ADD net1", "ipvlan ADD net3"]);
  expect(await pod.again()).toMatchObject({ state: "settled" });
  expect(await pod.recorded()).toEqual([
    ...["eth0 default-net", "net1 default/a", "net3 default/c", "net4 default/b"],
  ]);
});

const withIps = { ...network("net-a"), plugins: [{ type: "bridge", capabilities: { ips: true } }] };

test.each([
  { how: "keeps the addresses", refuses: false, asked: [["10.0.0.2/24"]] },
  {
    how: "gets others at the next attempt if its IPAM refuses them",
    refuses: true,
    asked: [["10.0.0.2/24"], undefined],
  },
])("a refreshed network $how", async ({ refuses, asked }) => {
  const prepare = (lab: EngineLab): void => lab.source.addNad("default/a", withIps);
  const pod = await hotPlugLab("a", {}, { prepare });
  pod.lab.plugins.script("bridge ADD", ({ conf }) => {
    const { ips } = (conf.runtimeConfig ?? {}) as { ips?: string[] };
    return refuses && ips !== undefined ? failed(7, "not in the range") : undefined;
  });
  expect(await pod.again("net1")).toMatchObject({ state: refuses ? "failed" : "settled" });
  expect(await pod.again()).toMatchObject({ state: "settled" });
  const adds = pod.lab.plugins.of("bridge", "ADD");
  expect(
    adds.map(({ conf }) => (conf.runtimeConfig as { ips?: string[] } | undefined)?.ips),
  ).toEqual(asked);
});

test("a refreshed network that its IPAM refuses and that cannot be detached gets no other addresses beside", async () => {
  const prepare = (lab: EngineLab): void => lab.source.addNad("default/a", withIps);
  const pod = await hotPlugLab("a", {}, { prepare });
  const ends = halfway(pod.lab, failed(7, "not in the range"));
  pod.lab.plugins.script("bridge ADD", (call) => {
    pod.lab.plugins.script("bridge DEL", failed(7, "no server answers"));
    return ends(call);
  });
  expect(await pod.again("net1")).toMatchObject({ state: "failed" });
  expect(pod.lab.plugins.log()).toEqual(["bridge DEL net1", "bridge ADD net1", "bridge DEL net1"]);
});

/** An ADD of an interface with a default route by each gateway, in the kernel and in the result. */
function routed({ kernel }: EngineLab, gateways: readonly string[]) {
  return (call: Parameters<typeof interfaceResult>[0]): DelegateOutcome => {
    const isV6 = (gateway: string): boolean => gateway.includes(":");
    const addresses = gateways.map((gw) => `${gw}0/${isV6(gw) ? 64 : 24}`);
    kernel.addLink(netns, call.ifName, addresses);
    const first = call.ifName === "eth0" ? 100 : 50;
    for (const gateway of gateways) {
      const metric = isV6(gateway) ? 1024 + first : first;
      kernel.addDefaultRoute(netns, { dev: call.ifName, gateway, metric });
    }
    const routes = gateways.map((gw) => ({
      ...{ dst: isV6(gw) ? "::/0" : "0.0.0.0/0", gw },
      priority: isV6(gw) ? 1024 + first : first,
    }));
    return exited(0, { ...interfaceResult(call, addresses), routes });
  };
}

const viaEth0 = ["via 10.9.0.1 dev eth0 metric 100", "via fd09::1 dev eth0 metric 1124"];

/** A pod whose primary network and `b` have default routes of both families. */
async function routedPod(
  annotation: object[],
  options: object = {},
  networks: Parameters<typeof hotPlugLab>[1] = {},
): Promise<HotPlugLab> {
  const prepare = (lab: EngineLab): void => {
    lab.plugins.script("ptp ADD", routed(lab, ["10.9.0.1", "fd09::1"]));
    lab.plugins.script("macvlan ADD", routed(lab, ["10.8.0.1", "fd08::1"]));
    lab.plugins.script("macvlan DEL", ({ ifName }) => void lab.kernel.removeLink(netns, ifName));
  };
  const pod = await hotPlugLab(annotation as never, networks, { prepare, ...options });
  pod.newEvents();
  return pod;
}

test("a plugged network whose IPAM has default routes does not take those of the pod [H-37]", async () => {
  const pod = await routedPod([{ name: "a" }]);
  await pod.edit("a,b");
  expect(pod.lab.kernel.defaultRoutes(netns)).toEqual(viaEth0);
  expect((await pod.attachments())[2]?.result).not.toHaveProperty("routes");
});

test.each([
  ["does not take them while a further plugin runs", "tuning", viaEth0],
  [
    "leaves them to sbr, which moves them",
    "sbr",
    expect.arrayContaining([expect.stringContaining("dev net2")]),
  ],
])("a plugged network whose IPAM has default routes %s [H-37]", async (_, type, expected) => {
  const pod = await routedPod([{ name: "a" }], {}, { b: ["macvlan", type] });
  const { kernel, plugins } = pod.lab;
  let seen: readonly string[] = [];
  plugins.script(`${type} ADD`, (call) => {
    seen = kernel.defaultRoutes(netns);
    return plugins.work(call);
  });
  await pod.edit("a,b");
  expect(seen).toEqual(expected);
  expect(kernel.defaultRoutes(netns)).toEqual(viaEth0);
  expect((await pod.attachments())[2]?.result).not.toHaveProperty("routes");
});

test("a plugged network whose default routes the kernel does not remove is undone before a further plugin runs", async () => {
  const pod = await routedPod([{ name: "a" }], {}, { b: ["macvlan", "tuning"] });
  const { kernel, plugins } = pod.lab;
  const deleteRoute = 25;
  const eperm = 1;
  kernel.refuse = ({ type }) => (type === deleteRoute ? eperm : undefined);
  expect(await pod.edit("a,b")).toMatchObject({ state: "failed" });
  expect(plugins.log().slice(-3)).toEqual([
    "macvlan ADD net2",
    "tuning DEL net2",
    "macvlan DEL net2",
  ]);
  expect(await pod.recorded()).toEqual(["eth0 default-net", "net1 default/a"]);
});

test("a plugged network whose result also names the pod's interface leaves its default routes", async () => {
  const pod = await routedPod([{ name: "a" }]);
  pod.lab.plugins.script("ipvlan ADD", (call) => {
    const { interfaces, ...result } = interfaceResult(call, "10.7.0.2/24");
    const eth0 = { name: "eth0", sandbox: netns };
    pod.lab.kernel.addLink(netns, call.ifName);
    return exited(0, { ...result, interfaces: [...(interfaces as object[]), eth0] });
  });
  await pod.edit("a,c");
  expect(pod.lab.kernel.defaultRoutes(netns)).toEqual(viaEth0);
});

const routing = { name: "b", interface: "x1", "default-route": [] };

test.each<{ readonly what: string; readonly to: Json; readonly why: RegExp }>([
  { what: "removes it", to: "a", why: /default\/b \(x1\): the pod's default route is on x1/ },
  { what: "replaces it", to: "c@x1", why: /the pod's default route is on x1/ },
  {
    what: "moves it",
    to: [{ ...routing, interface: "x2" }],
    why: /the pod's default route is on x1/,
  },
  { what: "takes its default-route", to: "b@x1", why: /the pod's default route is on x1/ },
])(
  "an edit of the element with default-route that $what is refused [H-37]",
  async ({ to, why }) => {
    const pod = await routedPod([routing]);
    const before = [await pod.recorded(), pod.lab.kernel.defaultRoutes(netns)];
    expect(await pod.edit(to)).toMatchObject({ state: "failed", operations: [] });
    expect([await pod.recorded(), pod.lab.kernel.defaultRoutes(netns)]).toEqual(before);
    expect(pod.lab.journal).toEqual([]);
    expect(pod.newEvents()).toEqual([expect.stringMatching(why)]);
    expect(await pod.edit([routing])).toMatchObject({ state: "settled" });
  },
);

test("a network with the pod's default route is neither refreshed nor healed [H-39]", async () => {
  const pod = await routedPod([routing], { config: { inspect: ["heal"] } });
  expect((await pod.again("x1")).problems).toMatchObject([{ network: "default/b", ifName: "x1" }]);
  pod.lab.kernel.removeLink(netns, "x1");
  const { lab, hosts } = pod;
  pod.newEvents();
  const found = await lab.engine.inspect(pod.pod(), { hosts, conf: async () => lab.conf });
  expect(found.willHeal).toBe(false);
  expect(pod.newEvents()).toEqual([expect.stringMatching(/^InterfaceLost: .*: delete the pod/)]);
});

/** A pod whose network `a` an earlier release has detached for another one, as it is read now. */
async function detachedByEarlierRelease(): Promise<HotPlugLab> {
  const pod = await hotPlugLab("a@x1,b");
  const { record, plan } = (await pod.lab.records.load(sandbox))!;
  const attachments = record.attachments.map((each) => {
    const { result: _, ...detached } = each;
    return each.ifName === "x1" ? { ...detached, state: "detaching" as const } : each;
  });
  const steps = plan.steps.filter(({ group }) => group !== 1);
  await pod.lab.records.update({ ...record, addEnded: true, attachments }, { ...plan, steps });
  pod.lab.kernel.removeLink(netns, "x1");
  pod.lab.plugins.calls.length = 0;
  return pod;
}

test("what an earlier release has detached for another network is forgotten by an edit", async () => {
  const pod = await detachedByEarlierRelease();
  expect(await pod.edit("c@x1,b")).toMatchObject({ state: "settled" });
  expect(pod.lab.plugins.log()).toEqual(["ipvlan ADD x1"]);
  expect(await pod.recorded()).toEqual(["eth0 default-net", "net2 default/b", "x1 default/c"]);
});

test("what an earlier release has detached for another network is not detached again by a DEL", async () => {
  const pod = await detachedByEarlierRelease();
  expect(await pod.lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(pod.lab.plugins.log()).toEqual(["macvlan DEL net2", "ptp DEL eth0"]);
});
