import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import type { DelegateOutcome } from "#cni/runtime/delegate.ts";
import { type EngineLab, netns, network, sandbox } from "#engine/testing/engine-lab.ts";
import { exited, failed, halfway, interfaceResult } from "#engine/testing/fake-plugins.ts";
import { missing, web } from "#engine/testing/pod-lab.ts";
import { execute } from "#netlink/codec.ts";
import { deleteRoute, isDefault, listRoutes } from "#netlink/routes.ts";
import { problemsText } from "./reports/problem-texts.ts";
import { type HotPlugLab, hotPlugLab } from "./testing/hot-plug-lab.ts";

/*
 * What an ADD demands holds for networks of a running pod, too: each test is a defect of the time
 * when hot-plug planned, attached and undid by itself.
 */

const unnamed = ["eth0 default-net", "net1 default/a", "net2 default/b"];

test("a plugin that is not there fails nothing but its element, and its network can be plugged later", async () => {
  const pod = await hotPlugLab("a");
  pod.lab.plugins.setLookup("macvlan", missing);
  expect(await pod.edit("a,b,c")).toMatchObject({ state: "failed" });
  expect(pod.newEvents().join()).toMatch(/InterfaceAddRejected: .*default\/b.*macvlan/);
  expect(pod.lab.plugins.log()).toEqual(["ipvlan ADD net2"]);
  expect(await pod.recorded()).toEqual([...unnamed.slice(0, 2), "net2 default/c"]);
  pod.lab.plugins.setLookup("macvlan", { outcome: "found" });
  expect(await pod.again()).toMatchObject({ state: "settled" });
  expect(await pod.recorded()).toContain("net3 default/b");
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

test("a missing plugin counts as lost for an unplugged network after its grace period", async () => {
  const pod = await hotPlugLab("a,b");
  pod.lab.plugins.setLookup("bridge", missing);
  pod.lab.kernel.removeLink(netns, "net1");
  expect(await pod.edit("b")).toMatchObject({ state: "failed" });
  pod.lab.advance(pod.lab.config.delGraceMs ?? 300_000);
  expect(await pod.again()).toMatchObject({ state: "settled" });
  expect(await pod.recorded()).toEqual(["eth0 default-net", "net2 default/b"]);
});

test.each([
  {
    why: "its plugin is missing",
    breakIt: (lab: EngineLab) => lab.plugins.setLookup("macvlan", missing),
  },
  { why: "its definition is gone", breakIt: (lab: EngineLab) => lab.source.removeNad("default/b") },
])("a swap removes nothing if the new network cannot be attached: $why", async ({ breakIt }) => {
  const pod = await hotPlugLab("a@x1");
  breakIt(pod.lab);
  expect(await pod.edit("b@x1")).toMatchObject({ state: "failed" });
  expect([pod.lab.plugins.log(), await pod.recorded()]).toEqual([
    [],
    ["eth0 default-net", "x1 default/a"],
  ]);
});

interface SwapScene {
  readonly when: string;
  readonly change?: (lab: EngineLab) => void;
  readonly refreshed?: string;
}

test.each<SwapScene>([
  {
    when: "its definition changes",
    change: ({ source }) => source.addNad("default/b", network("net-b", "macvlan", "tuning")),
  },
  { when: "some minutes have passed", change: (lab) => lab.advance(240_000) },
  { when: "somebody refreshes it", refreshed: "x1" },
])("if the new network of a swap fails, the old one comes back until $when", async (scene) => {
  const { change, refreshed } = scene;
  const pod = await hotPlugLab("a@x1");
  pod.lab.plugins.script("macvlan ADD", failed(7, "no such VLAN"));
  expect(await pod.edit("b@x1")).toMatchObject({
    state: "failed",
    operations: [
      { op: "remove", result: "success" },
      { op: "add", result: "error", error: { message: expect.stringMatching(/no such VLAN/) } },
    ],
  });
  expect(await pod.recorded()).toEqual(["eth0 default-net", "x1 default/a"]);
  expect(pod.shown()).toEqual(await pod.recorded());
  // A plugin may have been killed: only a second failure says that it does not work.
  await pod.again();
  expect(pod.lab.plugins.log("ADD").slice(-2)).toEqual(["macvlan ADD x1", "bridge ADD x1"]);
  pod.lab.plugins.calls.length = 0;
  expect(await pod.again()).toMatchObject({
    state: "failed",
    problems: [
      {
        error: {
          message: expect.stringMatching(/no such VLAN.*default\/a \(x1\) is attached again/),
        },
      },
    ],
  });
  expect(pod.lab.plugins.log()).toEqual([]);
  pod.lab.plugins.unscript("macvlan ADD");
  change?.(pod.lab);
  expect(await pod.again(refreshed)).toMatchObject({ state: "settled" });
  expect(await pod.recorded()).toEqual(["eth0 default-net", "x1 default/b"]);
});

test("if the new network of a swap fails and cannot be detached, nothing else gets its interface", async () => {
  const pod = await hotPlugLab("a@x1");
  pod.lab.plugins.script("macvlan ADD", halfway(pod.lab, failed(7, "no such VLAN")));
  pod.lab.plugins.script("macvlan DEL", failed(7, "no server answers"));
  for (let attempt = 0; attempt < 2; attempt++) {
    await pod.edit("b@x1");
    expect(await pod.recorded()).toEqual(["eth0 default-net", "x1 default/b"]);
    expect(pod.shown()).toEqual(["eth0 default-net"]);
  }
  for (const which of ["macvlan ADD", "macvlan DEL"]) pod.lab.plugins.unscript(which);
  expect(await pod.again()).toMatchObject({ state: "settled" });
  expect(pod.shown()).toEqual(["eth0 default-net", "x1 default/b"]);
});

test.each([
  { to: "a@x2", why: "on another interface" },
  { to: "a", why: "without its interface" },
])("an element that cannot be attached $why comes back", async ({ to }) => {
  const pod = await hotPlugLab("a@x1");
  pod.lab.plugins.script("bridge ADD", ({ ifName }) =>
    ifName === "x1" ? undefined : failed(7, "not there"),
  );
  expect(await pod.edit(to)).toMatchObject({ state: "failed" });
  expect(await pod.recorded()).toEqual(["eth0 default-net", "x1 default/a"]);
  expect(pod.shown()).toEqual(await pod.recorded());
  await pod.again();
  pod.lab.plugins.calls.length = 0;
  const { problems = [] } = await pod.again();
  expect(pod.lab.plugins.log()).toEqual([]);
  await pod.again("x1");
  expect(pod.lab.plugins.log()[0]).toBe("bridge DEL x1");
  expect(problemsText(problems)).toMatch(
    /^network default\/a \((net1|x2)\): plugin .* failed \(add\): not there; default\/a \(x1\) is/,
  );
});

const exchanged = ["eth0 default-net", "net1 default/a", "net2 default/b"];

test.each([
  { fails: "bridge ADD net2", to: "b@net1,a@net2", left: ["eth0 default-net", "net1 default/b"] },
  { fails: "bridge ADD net2", to: "a@net2,b@net1", left: exchanged },
  { fails: "macvlan ADD net1", to: "b@net1,a@net2", left: exchanged },
  { fails: "macvlan ADD net1", to: "a@net2,b@net1", left: ["eth0 default-net", "net2 default/a"] },
])("an exchange to $to in which $fails fails attaches no network twice", async (exchange) => {
  const pod = await hotPlugLab("a@net1,b@net2");
  const [plugin, , fails] = exchange.fails.split(" ");
  pod.lab.plugins.script(`${plugin} ADD`, ({ ifName }) =>
    ifName === fails ? failed(7, "not there") : undefined,
  );
  for (let attempt = 0; attempt < 2; attempt++) {
    expect(await pod.edit(exchange.to)).toMatchObject({ state: "failed" });
    expect((await pod.recorded()).toSorted()).toEqual(exchange.left);
  }
  pod.lab.plugins.unscript(`${plugin} ADD`);
  pod.lab.advance(240_000);
  expect(await pod.again()).toMatchObject({ state: "settled" });
  expect((await pod.recorded()).toSorted()).toEqual([
    ...["eth0 default-net", "net1 default/b", "net2 default/a"],
  ]);
});

test.each([
  { edit: "an exchange", to: "b@net1,a@net2" },
  { edit: "another interface", to: "a@net3,b@net2" },
])("$edit attaches no network that could not be detached", async ({ to }) => {
  const pod = await hotPlugLab("a@net1,b@net2");
  pod.lab.plugins.script("bridge DEL", failed(7, "no server answers"));
  await pod.edit(to);
  expect(pod.lab.plugins.log("ADD")).not.toContain("bridge ADD");
  await pod.again();
  expect((await pod.recorded()).toSorted()).toEqual(exchanged);
  pod.lab.plugins.calls.length = 0;
  await pod.again();
  expect(pod.lab.plugins.log()).toEqual(["bridge DEL net1"]);
  pod.lab.plugins.unscript("bridge DEL");
  pod.lab.advance(240_000);
  expect(await pod.again()).toMatchObject({ state: "settled" });
});

test("an exchange attaches no network that could not be detached, although its interface is not free either", async () => {
  const pod = await hotPlugLab("b,a@x1");
  for (const type of ["bridge", "macvlan"])
    pod.lab.plugins.script(`${type} DEL`, failed(7, "no server answers"));
  expect(await pod.edit("b@x1,a")).toMatchObject({ state: "failed" });
  expect(pod.lab.plugins.log("ADD")).toEqual([]);
  for (const type of ["bridge", "macvlan"]) pod.lab.plugins.unscript(`${type} DEL`);
  expect(await pod.again()).toMatchObject({ state: "settled" });
  expect((await pod.recorded()).toSorted()).toEqual([
    ...["eth0 default-net", "net2 default/a", "x1 default/b"],
  ]);
});

test("a network that is lost in an exchange can be attached on its new interface", async () => {
  const pod = await hotPlugLab("a@net1,b@net2");
  for (const type of ["bridge", "macvlan"])
    pod.lab.plugins.script(`${type} ADD`, ({ ifName }) =>
      ifName === "net1" ? failed(7, "not there") : undefined,
    );
  expect(await pod.edit("b@net1,a@net2")).toMatchObject({ state: "failed" });
  expect(pod.shown()).toEqual(["eth0 default-net", "net2 default/a"]);
});

test("a network of two that were detached for others keeps its place if the agent goes meanwhile", async () => {
  const pod = await hotPlugLab("a@x1,b@x2");
  pod.lab.plugins.script("ipvlan ADD", (call) => {
    if (call.ifName === "x1") pod.hosts.disconnect();
    return pod.lab.plugins.work(call);
  });
  pod.newEvents();
  await pod.edit("c@x1,c@x2");
  expect(pod.newEvents().map((event) => event.split(":")[0])).toEqual(
    Array(2).fill("RemovedInterface"),
  );
  expect((await pod.attachments()).map(({ ifName, state }) => `${ifName} ${state}`)).toEqual([
    ...["eth0 attached", "x2 detached", "x1 attempted"],
  ]);
});

test("an exchange with a network that is not defined changes nothing", async () => {
  const pod = await hotPlugLab("a@net1,b@net2");
  pod.lab.source.removeNad("default/b");
  expect(await pod.edit("b@net1,a@net2")).toMatchObject({ state: "failed" });
  expect([pod.lab.plugins.log(), await pod.recorded()]).toEqual([[], exchanged]);
});

test("an element gets no interface that a later one requests, as in an ADD", async () => {
  const pod = await hotPlugLab("");
  expect(await pod.edit("a,b@net1")).toMatchObject({ state: "settled" });
  expect(await pod.recorded()).toEqual(["eth0 default-net", "net2 default/a", "net1 default/b"]);
});

test("an element gets no interface that the plugin of an earlier one has made", async () => {
  const pod = await hotPlugLab("");
  pod.lab.plugins.script("bridge ADD", (call) => {
    for (const name of [call.ifName, "net2"]) pod.lab.kernel.addLink(netns, name);
    return exited(0, interfaceResult(call, "10.1.0.1/24"));
  });
  expect(await pod.edit("a,b,c@net3")).toMatchObject({ state: "settled" });
  expect(await pod.recorded()).toEqual([
    ...["eth0 default-net", "net1 default/a", "net4 default/b", "net3 default/c"],
  ]);
});

const withIps = { ...network("net-a"), plugins: [{ type: "bridge", capabilities: { ips: true } }] };

test.each([
  { how: "keeps the addresses", refuses: false, asked: [["10.0.0.2/24"]] },
  {
    how: "gets others if its IPAM refuses them",
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
  expect(await pod.again("net1")).toMatchObject({ state: "settled" });
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

test("of two elements of one definition, the one that can be attached is", async () => {
  const pod = await hotPlugLab("");
  expect(await pod.edit("b@eth0,b")).toMatchObject({ state: "failed" });
  expect(await pod.recorded()).toEqual(["eth0 default-net", "net1 default/b"]);
});

test("devices that cannot be looked up now keep their element waiting, and no other", async () => {
  const devicesOf = async (): Promise<never> => {
    throw new CniError("TryAgainLater", "the kubelet does not answer");
  };
  const pod = await hotPlugLab("a", {}, { deviceSources: [{ devicesOf }] });
  const resource = { "k8s.v1.cni.cncf.io/resourceName": "vendor.example/vf" };
  pod.lab.source.addNad("default/vf", network("net-vf", "sriov"), resource);
  expect(await pod.edit("vf,b")).toMatchObject({ state: "failed" });
  expect(await pod.recorded()).toEqual(["eth0 default-net", "net1 default/b"]);
  expect(pod.newEvents().join()).not.toMatch(/InterfaceAddRejected/);
});

test("an annotation that became invalid keeps no lost interface from healing", async () => {
  const pod = await hotPlugLab("a,b", {}, { config: { inspect: ["heal"] } });
  pod.lab.kernel.removeLink(netns, "net1");
  const { lab, hosts } = pod;
  await lab.engine.inspect(pod.pod(), { hosts, conf: async () => lab.conf });
  const invalid = { message: expect.stringContaining("annotation is invalid") };
  expect((await pod.edit("[")).problems).toMatchObject([{ error: invalid }]);
  expect(lab.kernel.linkNames(netns)).toEqual(["eth0", "net1", "net2"]);
  expect(await pod.again()).toMatchObject({ state: "settled", problems: [{}] });
});

/** An ADD of an interface with a default route by each gateway, in the kernel and in the result. */
function routed({ kernel }: EngineLab, gateways: readonly string[], metricOfOthers = 50) {
  return (call: Parameters<typeof interfaceResult>[0]): DelegateOutcome => {
    const isV6 = (gateway: string): boolean => gateway.includes(":");
    const addresses = gateways.map((gw) => `${gw}0/${isV6(gw) ? 64 : 24}`);
    kernel.addLink(netns, call.ifName, addresses);
    const first = call.ifName === "eth0" ? 100 : metricOfOthers;
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

async function removeDefaultRoutes({ kernel: { transport } }: EngineLab): Promise<void> {
  for (const family of [4, 6] as const) {
    const all = await listRoutes(transport, netns, family);
    await execute(transport, netns, all.filter(isDefault).map(deleteRoute));
  }
}

const viaEth0 = ["via 10.9.0.1 dev eth0 metric 100", "via fd09::1 dev eth0 metric 1124"];

/** A pod whose primary network and `b` have default routes of both families. */
async function routedPod(annotation: object[], options: object = {}): Promise<HotPlugLab> {
  const prepare = (lab: EngineLab): void => {
    lab.plugins.script("ptp ADD", routed(lab, ["10.9.0.1", "fd09::1"]));
    lab.plugins.script("macvlan ADD", routed(lab, ["10.8.0.1", "fd08::1"]));
    lab.plugins.script("macvlan DEL", ({ ifName }) => void lab.kernel.removeLink(netns, ifName));
  };
  const pod = await hotPlugLab(annotation as never, {}, { prepare, ...options });
  pod.newEvents();
  return pod;
}

test("a plugged network whose IPAM has default routes does not take those of the pod [H-37]", async () => {
  const pod = await routedPod([{ name: "a" }]);
  await pod.edit("a,b");
  expect(pod.lab.kernel.defaultRoutes(netns)).toEqual(viaEth0);
  expect((await pod.attachments())[2]?.result).not.toHaveProperty("routes");
  expect((await pod.attachments())[0]).not.toHaveProperty("yieldedRoutes");
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

test("a plugged network does not take a default route that the pod's own is about to get back", async () => {
  const pod = await routedPod([{ name: "b", interface: "x1", "default-route": ["10.8.0.1"] }]);
  pod.lab.source.addNad("default/d", network("net-d", "macvlan"));
  const { plugins, kernel } = pod.lab;
  plugins.script("macvlan DEL", ({ ifName }) => {
    kernel.removeLink(netns, ifName);
    return failed(7, "busy");
  });
  await pod.edit("d@x2");
  expect(kernel.defaultRoutes(netns)).toEqual([viaEth0[1]]);
  plugins.unscript("macvlan DEL");
  expect(await pod.edit("d@x2")).toMatchObject({ state: "settled" });
  expect(kernel.defaultRoutes(netns).toSorted()).toEqual(viaEth0.toSorted());
  expect((await pod.attachments())[1]?.result).not.toHaveProperty("routes");
});

test.each([
  { metric: 50, swapped: ["via 10.8.0.1 dev x2 metric 50", "via fd08::1 dev x2 metric 1074"] },
  { metric: 200, swapped: [] },
])(
  "a network that is swapped has the default route only if it had the first one: metric $metric",
  async ({ metric, swapped }) => {
    const prepare = (lab: EngineLab): void => {
      lab.plugins.script("ptp ADD", routed(lab, ["10.9.0.1", "fd09::1"]));
      lab.plugins.script("macvlan ADD", routed(lab, ["10.8.0.1", "fd08::1"], metric));
      lab.plugins.script("macvlan DEL", ({ ifName }) => void lab.kernel.removeLink(netns, ifName));
    };
    const start = () => routedPod([{ name: "b", interface: "x1" }], { prepare });
    const allowed = [...viaEth0, ...swapped];
    const whole = await start();
    expect(await whole.edit("b@x2")).toMatchObject({ state: "settled" });
    expect(whole.lab.kernel.defaultRoutes(netns).toSorted()).toEqual(allowed.toSorted());
    for (let goesAt = 0; goesAt < whole.hosts.orders; goesAt++) {
      const pod = await start();
      pod.hosts.goesAt = goesAt;
      await pod.edit("b@x2");
      pod.hosts.goesAt = Number.POSITIVE_INFINITY;
      expect((await pod.again()).state, `interrupted at order ${goesAt}`).toBe("settled");
      // An interrupted swap may lose its own default routes to the primary network's.
      const routes = pod.lab.kernel.defaultRoutes(netns);
      expect(routes).toEqual(expect.arrayContaining(viaEth0));
      expect(allowed).toEqual(expect.arrayContaining(routes));
    }
  },
);

test.each([
  { families: "both", gateways: [], taken: [] },
  { families: "IPv4", gateways: ["10.8.0.1"], taken: [viaEth0[1]] },
])(
  "an edit that removes an element with default-route of $families families gives the pod its own back",
  async ({ gateways, taken }) => {
    const pod = await routedPod([{ name: "b", "default-route": gateways }]);
    const kept = pod.lab.kernel.defaultRoutes(netns).filter((each) => each.includes("eth0"));
    expect(kept).toEqual(taken);
    expect(await pod.edit("")).toMatchObject({ state: "settled" });
    expect(pod.lab.kernel.defaultRoutes(netns).toSorted()).toEqual(viaEth0.toSorted());
    expect((await pod.attachments())[0]).not.toHaveProperty("yieldedRoutes");
    expect((await pod.attachments())[0]?.result).toMatchObject({
      routes: expect.arrayContaining(
        ["0.0.0.0/0", "::/0"].map((dst) => expect.objectContaining({ dst })),
      ),
    });
  },
);

test("an element that loses its default-route keeps its interface, and the pod gets its own back", async () => {
  const element = { name: "b", interface: "x1" };
  const pod = await routedPod([{ ...element, "default-route": [] }]);
  expect(await pod.edit([element])).toMatchObject({ state: "settled" });
  expect(await pod.recorded()).toContain("x1 default/b");
  expect(pod.lab.kernel.defaultRoutes(netns).toSorted()).toEqual(viaEth0.toSorted());
});

test("a healed interface with default-route gets the default route again [H-39]", async () => {
  const pod = await routedPod([{ name: "b", "default-route": [] }], {
    config: { inspect: ["heal"] },
  });
  const before = pod.lab.kernel.defaultRoutes(netns);
  pod.lab.kernel.removeLink(netns, "net1");
  const { lab, hosts } = pod;
  await lab.engine.inspect(pod.pod(), { hosts, conf: async () => lab.conf });
  expect(await pod.again()).toMatchObject({ state: "settled" });
  expect(lab.kernel.defaultRoutes(netns)).toEqual(before);
  await pod.edit("");
  expect(lab.kernel.defaultRoutes(netns).toSorted()).toEqual(viaEth0.toSorted());
});

test.each([
  { what: "a refreshed network with default-route", from: [{ name: "b", "default-route": [] }] },
  { what: "a plugged network whose plugin removes it", from: [{ name: "a" }] },
])("$what costs the pod none, wherever it is interrupted", async ({ from }) => {
  const isRefresh = from[0]?.name === "b";
  const start = async (): Promise<HotPlugLab> => {
    const pod = await routedPod(from);
    pod.lab.plugins.script("ipvlan ADD", async (call) => {
      await removeDefaultRoutes(pod.lab);
      return pod.lab.plugins.work(call);
    });
    return pod;
  };
  const change = (pod: HotPlugLab) => (isRefresh ? pod.again("net1") : pod.edit("a,c"));
  const whole = await start();
  await change(whole);
  for (let goesAt = 0; goesAt < whole.hosts.orders; goesAt++) {
    const pod = await start();
    pod.hosts.goesAt = goesAt;
    await change(pod);
    pod.hosts.goesAt = Number.POSITIVE_INFINITY;
    expect(await pod.edit("")).toMatchObject({ state: "settled" });
    const left = await pod.lab.kernel.defaultRoutes(netns);
    expect(left.toSorted(), `interrupted at order ${goesAt}`).toEqual(viaEth0.toSorted());
  }
});

test("an element with default-route can be replaced wherever that was interrupted", async () => {
  const element = { name: "b", interface: "x1", "default-route": [] };
  const start = async (): Promise<HotPlugLab> => {
    const pod = await routedPod([element]);
    pod.lab.source.addNad("default/e", network("net-e", "macvlan"));
    return pod;
  };
  const successor = [{ ...element, name: "e" }] as never;
  const whole = await start();
  const routes = whole.lab.kernel.defaultRoutes(netns);
  await whole.edit(successor);
  for (let goesAt = 0; goesAt < whole.hosts.orders; goesAt++) {
    const pod = await start();
    pod.hosts.goesAt = goesAt;
    await pod.edit(successor);
    pod.hosts.goesAt = Number.POSITIVE_INFINITY;
    expect((await pod.again()).state, `interrupted at order ${goesAt}`).toBe("settled");
    expect(await pod.recorded()).toEqual(["eth0 default-net", "x1 default/e"]);
    expect(pod.shown()).toEqual(await pod.recorded());
    expect(pod.lab.kernel.defaultRoutes(netns)).toEqual(routes);
  }
});

test("a network that waits for its successor with default-route keeps the pod's own from nobody", async () => {
  const own = { interface: "x2", "default-route": [] };
  const pod = await routedPod([
    { name: "b", ...own },
    { name: "a", interface: "x1" },
  ]);
  pod.lab.source.addNad("default/d", network("net-d", "macvlan"));
  pod.lab.plugins.script("ipvlan ADD", async () => {
    await removeDefaultRoutes(pod.lab);
    pod.hosts.disconnect();
    return undefined;
  });
  await pod.edit([
    { name: "c", interface: "x1" },
    { name: "d", ...own },
  ] as never);
  const states = (await pod.attachments()).map(({ ifName, state }) => `${ifName} ${state}`);
  expect(states).toEqual(["eth0 attached", "x2 detached", "x1 attempted"]);
  pod.lab.source.removeNad("default/d");
  expect(await pod.edit([{ name: "d", ...own }] as never)).toMatchObject({ state: "failed" });
  expect(pod.lab.kernel.defaultRoutes(netns).toSorted()).toEqual(viaEth0.toSorted());
});

/** A pod whose network `a` was detached for `c` when the agent went. */
async function interruptedSwap(): Promise<HotPlugLab> {
  const own = await hotPlugLab("a@x1,b");
  const { update } = own.lab.records;
  own.lab.records.update = async (record, plan) => {
    await update.call(own.lab.records, record, plan);
    if (record.attachments[1]?.state === "detached") own.hosts.disconnect();
  };
  await own.edit("c@x1,b");
  own.lab.records.update = update;
  const replaced = { displayName: "default/a", state: "detached" };
  expect((await own.attachments())[1]).toMatchObject(replaced);
  own.lab.plugins.calls.length = 0;
  return own;
}

test("what was detached for a successor is not attached, and forgotten without one", async () => {
  const own = await interruptedSwap();
  expect(own.shown()).toEqual(["eth0 default-net", "net2 default/b"]);
  expect(await own.lab.check(web)).toMatchObject({ exitCode: 0 });
  own.lab.plugins.calls.length = 0;
  expect(own.newEvents()).toHaveLength(1);
  expect(await own.edit("b")).toMatchObject({ state: "settled", operations: [] });
  expect(own.newEvents()).toEqual([]);
  const left = ["eth0 default-net", "net2 default/b"];
  expect([own.lab.plugins.log(), await own.recorded()]).toEqual([[], left]);
});

test("what was detached for a successor comes back if that fails, now or later", async () => {
  const own = await interruptedSwap();
  const nad = network("net-c", "ipvlan");
  own.lab.source.removeNad("default/c");
  await own.again();
  expect(own.shown()).toEqual(["eth0 default-net", "net2 default/b"]);
  own.lab.source.addNad("default/c", nad);
  own.lab.plugins.script("ipvlan ADD", failed(7, "no such VLAN"));
  await own.again();
  expect(own.shown()).toContain("x1 default/a");
});

test("an element whose default route was another's can have it after it has failed", async () => {
  const element = { interface: "x1", "default-route": ["10.8.0.1"] };
  const pod = await routedPod([{ name: "b", ...element }]);
  pod.lab.source.addNad("default/d", network("net-d", "macvlan"));
  const { plugins, kernel } = pod.lab;
  plugins.script("macvlan DEL", failed(7, "busy"));
  const edited = [{ name: "d", ...element }] as never;
  await pod.edit(edited);
  plugins.script("macvlan DEL", ({ ifName }) => void kernel.removeLink(netns, ifName));
  plugins.script("macvlan ADD", failed(7, "no such device"));
  expect(await pod.edit(edited)).toMatchObject({ state: "failed" });
  plugins.script("macvlan ADD", routed(pod.lab, ["10.8.0.1", "fd08::1"]));
  expect(await pod.edit(edited)).toMatchObject({ state: "settled" });
  expect(await pod.recorded()).toEqual(["eth0 default-net", "x1 default/d"]);
});

test("what was detached for a successor is forgotten if the edit moves it", async () => {
  const own = await interruptedSwap();
  await own.edit("nope@x1,b,a@x2");
  expect(await own.recorded()).toEqual(["eth0 default-net", "net2 default/b", "x2 default/a"]);
});

test.each([
  ["a DEL", (own: HotPlugLab) => own.lab.bootId],
  ["a DEL after a reboot", () => "next-boot"],
])("what was detached for a successor is not detached again by %s", async (_, bootId) => {
  const own = await interruptedSwap();
  own.lab.bootId = bootId(own);
  const { plan } = (await own.lab.records.load({ containerId: "c1", ifName: "eth0" })) ?? {};
  const ofShim = plan?.steps.map(({ call }) => call.env.CNI_IFNAME);
  expect(await own.lab.del(web)).toMatchObject({ exitCode: 0 });
  const interfaces = own.lab.plugins.calls.map(({ env }) => env.CNI_IFNAME);
  expect([...new Set(interfaces)]).toEqual(["net2", "eth0"]);
  expect([...new Set(ofShim)]).toEqual(["net2", "eth0"]);
});

test("a network that fails after it has taken the default route gives it back", async () => {
  const pod = await routedPod([{ name: "b", "default-route": [] }, { name: "a" }]);
  const before = pod.lab.kernel.defaultRoutes(netns);
  pod.lab.source.addNad("default/b", network("net-b", "macvlan", "tuning"));
  pod.lab.plugins.script("tuning ADD", failed(7, "no such key"));
  expect(await pod.again("net1")).toMatchObject({ state: "settled" });
  expect(pod.lab.kernel.defaultRoutes(netns)).toEqual(before);
  expect((await pod.attachments())[0]?.yieldedRoutes).toHaveLength(2);
});

test("an edit says that it cannot remove what an earlier release attached, which recorded no element", async () => {
  const pod = await hotPlugLab("a,b");
  const stored = await pod.lab.records.load(sandbox);
  const attachments = (stored?.record.attachments ?? []).map(({ selection: _, ...each }) => each);
  await pod.lab.records.update({ ...stored!.record, attachments }, stored!.plan);
  for (const _ of [1, 2]) expect(await pod.edit("b")).toMatchObject({ state: "settled" });
  expect(pod.newEvents()).toEqual([expect.stringMatching(/^NotManaged: .*default\/a \(net1\)/)]);
  expect(await pod.recorded()).toEqual(unnamed);
});
