import { expect, test } from "vitest";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { type EngineConfig, plexusdsListMark } from "#engine/config.ts";
import {
  bootId,
  EngineLab,
  expectError,
  netns,
  network,
  sandbox,
} from "#engine/testing/engine-lab.ts";
import { exited, failed, interfaceResult } from "#engine/testing/fake-plugins.ts";
import { missing, podLab, web } from "#engine/testing/pod-lab.ts";
import { eventually } from "#lib/testing/eventually.ts";
import { mirrorAnnotation } from "#npwg/object-meta.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";

test("add() attaches the default network first, then the requested ones in order; status and event list all [N-6.2] [N-4a] [N-6a] [N-5.2a] [N-5.3.5b] [N-4.2b]", async () => {
  const lab = podLab("b,a");
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["ptp ADD eth0", "macvlan ADD net1", "bridge ADD net2"]);
  expect(lab.publisher.status("default/web")).toMatchObject([
    { name: "default-net", interface: "eth0", ips: ["10.0.0.1"], default: true },
    { name: "default/b", interface: "net1", ips: ["10.0.0.2"], default: false },
    { name: "default/a", interface: "net2", ips: ["10.0.0.3"], default: false },
  ]);
  const shown = ["eth0 [10.0.0.1/24] from default-net", "net1 [10.0.0.2/24] from default/b"];
  const message = `Add ${[...shown, "net2 [10.0.0.3/24] from default/a"].join(", ")}`;
  expect(lab.events.recorded).toEqual([
    { pod: "default/web", type: "Normal", reason: "AddedInterface", message },
  ]);
});

test("add() has the first plugin require all others, and writes one record per network, not per plugin", async () => {
  const lab = podLab("a", { a: ["bridge", "tuning"] });
  lab.conf = { delegates: [network("default-net", "ptp", "portmap")] };
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.calls.map(({ type, requires }) => [type, requires])).toEqual([
    ["ptp", ["portmap", "bridge", "tuning"]],
    ["portmap", []],
    ["bridge", undefined],
    ["tuning", undefined],
  ]);
  expect(lab.journal.slice(0, -1)).toEqual([
    "create c1@eth0",
    "ptp ADD eth0",
    "portmap ADD eth0",
    "bridge ADD net1",
    "update c1@eth0",
    "tuning ADD net1",
    "update c1@eth0",
  ]);
});

test("add() also writes a record while a plugin runs whose DEL may need the result so far, or an earlier one's", async () => {
  const lab = podLab("a", { a: ["bridge", "tuning", "firewall", "portmap"] });
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(lab.journal.slice(0, -1)).toEqual([
    "create c1@eth0",
    "ptp ADD eth0",
    "bridge ADD net1",
    "update c1@eth0",
    "tuning ADD net1",
    "firewall ADD net1",
    "update c1@eth0",
    "portmap ADD net1",
    "update c1@eth0",
    "update c1@eth0",
  ]);
});

test("add() never runs two delegates of a sandbox at once [N-7.3] [R-1.0-20] [R-0.4-01]", async () => {
  const lab = podLab("a,b");
  let running = 0;
  let most = 0;
  for (const type of ["ptp", "bridge", "macvlan"]) {
    lab.plugins.script(type, async (call) => {
      most = Math.max(most, ++running);
      await new Promise((resolve) => setTimeout(resolve, 2));
      running--;
      return lab.plugins.work(call);
    });
  }
  await lab.add(web);
  expect(lab.plugins.calls).toHaveLength(3);
  expect(most).toBe(1);
});

test("add() returns only the default network's result, in the CNI version of the runtime's conf", async () => {
  const lab = podLab("a");
  expect((await lab.add({ ...web, conf: { cniVersion: "0.4.0" } })).json).toMatchObject({
    cniVersion: "0.4.0",
    interfaces: [{ name: "eth0", sandbox: netns }],
    ips: [{ version: "4", address: "10.0.0.1/24", gateway: "10.0.0.254", interface: 0 }],
  });
});

const attached = ["create c1@eth0", "ptp ADD eth0", "bridge ADD net1", "update c1@eth0"];

test.each([
  { publishStatus: "beforeReply", last: ["update c1@eth0", "publish default/web", "answer"] },
  { publishStatus: "required", last: ["update c1@eth0", "publish default/web", "answer"] },
  { publishStatus: "afterReply", last: ["update c1@eth0", "answer", "publish default/web"] },
] as const)(
  "add() records before the first delegate runs, one network ahead, and then the progress, and publishes $publishStatus",
  async ({ publishStatus, last }) => {
    const lab = podLab("a", undefined, { config: { publishStatus } });
    await lab.add({ ...web, beforeAnswered: async () => void lab.journal.push("answer") });
    expect(lab.journal).toEqual([...attached, ...last]);
    const progress = lab.records.writes.map(({ record, plan }) => ({
      states: record.attachments.map((a) => a.state).join(),
      results: record.attachments.map((a) => a.result !== undefined),
      attempted: plan.attempted,
    }));
    expect(progress.slice(0, 3)).toEqual([
      { states: "attempted,attempted", results: [false, false], attempted: 2 },
      { states: "attached,attempted", results: [true, false], attempted: 2 },
      { states: "attached,attached", results: [true, true], attempted: 2 },
    ]);
  },
);

test("add() runs delegates while the record is synced, and returns only when it is durable", async () => {
  const lab = podLab("a", undefined, { config: { publishStatus: "beforeReply" } });
  const disk = Promise.withResolvers<void>();
  lab.records.becomesDurable = () => disk.promise;
  let isAnswered = false;
  const answer = lab.add(web).finally(() => {
    isAnswered = true;
  });
  await eventually(() => expect(lab.publisher.published.size).toBe(1));
  for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
  expect(isAnswered).toBe(false);
  disk.resolve();
  expect(await answer).toMatchObject({ exitCode: 0 });
});

test.each([
  ["beforeReply", "publish default/web"],
  ["afterReply", "bridge ADD net1"],
] as const)("add() rolls back all (%s) if it cannot sync", async (publishStatus, last) => {
  const lab = podLab("a", undefined, { config: { publishStatus } });
  const disk = Promise.withResolvers<void>();
  lab.records.becomesDurable = () => disk.promise;
  const answer = lab.add(web);
  await eventually(() => expect(lab.journal).toContain(last));
  disk.reject(new Error("input/output error"));
  expect((await answer).json).toMatchObject({ msg: "input/output error" });
  expect(lab.plugins.log("DEL")).toEqual(["bridge DEL net1", "ptp DEL eth0"]);
  expect([lab.records.keys, lab.publisher.published.size]).toEqual([[], 0]);
  expect(lab.publisher.withdrawn).toEqual(["default/web"]);
});

/** A pod that requests networks (or none), whose status cannot be written. */
async function addUnpublished(
  networks: string,
  publishStatus: EngineConfig["publishStatus"],
): Promise<{ lab: EngineLab; answer: Awaited<ReturnType<EngineLab["add"]>> }> {
  const lab = podLab(networks, undefined, { config: { publishStatus } });
  lab.publisher.failure = { message: "no answer within 10000 ms", isRejected: false };
  const answer = await lab.add(web);
  await new Promise(setImmediate);
  return { lab, answer };
}

test("add() starts a pod whose status is late, and says so in an event", async () => {
  const { lab, answer } = await addUnpublished("a", "beforeReply");
  expect(answer).toMatchObject({ exitCode: 0 });
  expect(lab.events.recorded.find(({ reason }) => reason === "StatusLate")).toMatchObject({
    type: "Warning",
    message: expect.stringContaining("no answer within 10000 ms"),
  });
  const { record } = (await lab.records.load(sandbox)) ?? {};
  expect(Object.keys(record?.pendingStatus ?? {})).toEqual([networkStatusAnnotation]);
});

test("a publisher that fails does not show the status", async () => {
  const lab = podLab("a", undefined, { config: { publishStatus: "required" } });
  lab.publisher.shown = () => Promise.reject(new Error("input/output error"));
  const answer = await lab.add(web);
  expect(answer).toMatchObject({ exitCode: 1, json: { code: 11 } });
  expect(answer.json.msg).toContain("input/output error");
});

test("add() fails and detaches the pod if its status is required, and late", async () => {
  const { lab, answer } = await addUnpublished("a", "required");
  expect(answer).toMatchObject({ exitCode: 1, json: { code: 11 } });
  expect(answer.json.msg).toContain("no answer within 10000 ms");
  expect(lab.plugins.log("DEL")).toEqual(["bridge DEL net1", "ptp DEL eth0"]);
  expect(lab.events.reasons).toEqual(["StatusNotWritten"]);
});

test.each([
  ["that requests no networks", "", "required"],
  ["that requests some, with afterReply", "a", "afterReply"],
] as const)("add() of a pod %s does not wait for its status", async (_, networks, when) => {
  const { lab, answer } = await addUnpublished(networks, when);
  expect(answer).toMatchObject({ exitCode: 0 });
  expect(lab.events.reasons).toEqual(["AddedInterface"]);
});

test("add() of a sandbox without a pod returns the error of a record that cannot be synced", async () => {
  const lab = podLab("", undefined, { config: { publishStatus: "beforeReply" } });
  const disk = Promise.withResolvers<void>();
  lab.records.becomesDurable = () => disk.promise;
  lab.plugins.script("ptp ADD", (call) => {
    disk.reject(new Error("input/output error"));
    return lab.plugins.work(call);
  });
  expect((await lab.add()).json).toMatchObject({ msg: "input/output error" });
  expect([lab.records.keys, lab.publisher.withdrawn]).toEqual([[], []]);
});

test.each([
  { what: "the record", nth: 1, ran: [] },
  {
    what: "its progress",
    nth: 2,
    ran: ["ptp ADD eth0", "bridge ADD net1", "bridge DEL net1", "ptp DEL eth0"],
  },
])("add() rolls back what is attached if it cannot write $what", async ({ nth, ran }) => {
  const lab = podLab("a,b");
  lab.records.failWrite = { nth, error: new Error("disk full") };
  expect((await lab.add(web)).json).toMatchObject({ code: 999, msg: "disk full" });
  expect(lab.plugins.log()).toEqual(ran);
  expect(lab.records.keys).toEqual([]);
});

test("add() executes nothing if a plugin of any network cannot be executed, and names each", async () => {
  const lab = podLab("a,b");
  lab.source.addNad("default/a", network("net-a", "bridge", "tuning"));
  lab.plugins.setLookup("tuning", { outcome: "missing", message: "no such plugin" });
  lab.plugins.setLookup("macvlan", { outcome: "refused", message: "/x is writable by others" });
  const { json } = await lab.add({ ...web, env: { CNI_PATH: "/x:/y" } });
  expect(json).toMatchObject({
    code: 999,
    msg:
      'network default/a: failed to find plugin "tuning" in path [/x /y]; ' +
      'network default/b: plugin "macvlan" in path [/x /y] may not be executed: /x is writable by others',
  });
  expect(lab.journal).toEqual(["create c1@eth0", "finish c1@eth0"]);
  expect(lab.records.keys).toEqual([]);
  expect(lab.events.recorded.at(-1)).toMatchObject({ reason: "PluginMissing", message: json.msg });
  expect(lab.measured).toEqual(["start ADD", "end ADD 999"]);
});

test.each([
  {
    what: "the first network's error",
    outcome: failed(110, "no address left"),
    msg: 'network default-net (eth0): plugin type="ptp" failed (add): no address left',
  },
  {
    what: "the network whose plugin is missing first",
    msg: 'network default/a (net1): failed to find plugin "bridge" in path [/opt/cni/bin]',
  },
])("add() returns $what if plugins of additional networks disappear meanwhile", async (row) => {
  const lab = podLab("a,b");
  lab.plugins.script("ptp ADD", (call) => {
    lab.plugins.setLookup("bridge", missing);
    lab.plugins.setLookup("macvlan", missing);
    return row.outcome ?? lab.plugins.work(call);
  });
  expect((await lab.add(web)).json).toMatchObject({ msg: row.msg });
  expect(lab.plugins.log("DEL")).toEqual(["ptp DEL eth0"]);
});

test("add() does not look up IPAM plugins, as some plugins have theirs built in", async () => {
  const lab = podLab("a");
  const plugins = [{ type: "bridge", ipam: { type: "built-in" } }];
  lab.source.addNad("default/a", { cniVersion: "1.0.0", name: "net-a", plugins });
  lab.plugins.setLookup("built-in", { outcome: "missing", message: "no such plugin" });
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
});

test("add() records everything that DEL, CHECK and GC need", async () => {
  const lab = podLab('[{"name":"a","interface":"data0","cni-args":{"vlan":7}}]');
  lab.config = { binDir: "/opt/plexus/bin" };
  await lab.add({ ...web, env: { CNI_PATH: "/x:/y" } });
  const { record } = lab.records.writes.at(-1)!;
  expect(record).toMatchObject({
    ...sandbox,
    netns,
    cniVersion: "1.0.0",
    pod: { namespace: "default", name: "web", uid: "uid-1" },
    createdAt: "2026-01-01T00:00:00Z",
    clockMs: expect.any(Number),
    bootId,
  });
  const result = (name: string, address: string): object => ({
    cniVersion: "1.0.0",
    interfaces: [{ name, mac: lab.kernel.link(netns, name)?.mac, sandbox: netns }],
    ips: [{ address, gateway: "10.0.0.254", interface: 0 }],
  });
  const searchPath = ["/opt/plexus/bin", "/x", "/y"];
  const cniArgs = [
    ["IgnoreUnknown", "1"],
    ["K8S_POD_NAMESPACE", "default"],
    ["K8S_POD_NAME", "web"],
  ];
  expect(record.attachments).toEqual([
    {
      displayName: "default-net",
      isDefault: true,
      ifName: "eth0",
      state: "attached",
      conf: network("default-net", "ptp"),
      cniArgs,
      capabilityArgs: {},
      searchPath,
      result: result("eth0", "10.0.0.1/24"),
    },
    {
      displayName: "default/a",
      isDefault: false,
      definition: expect.stringMatching(/^[\w-]{16}$/),
      selection: { namespace: "default", name: "a", ifName: "data0", cniArgs: { vlan: 7 } },
      ifName: "data0",
      state: "attached",
      conf: {
        cniVersion: "1.0.0",
        name: "net-a",
        plugins: [{ type: "bridge", args: { cni: { vlan: 7 } } }],
      },
      cniArgs,
      capabilityArgs: {},
      searchPath,
      result: result("data0", "10.0.0.2/24"),
    },
  ]);
});

test("add() records the gateways of a default-route request", async () => {
  const lab = podLab('[{"name":"a","default-route":["10.0.0.77"]}]');
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  const [first] = lab.records.writes;
  expect(first?.record.attachments.map((a) => a.defaultRoute)).toEqual([undefined, ["10.0.0.77"]]);
  expect(lab.kernel.defaultRoutes(netns)).toHaveLength(1);
});

test("add() with an empty default-route sets the route that the plugin reported and did not set [N-5.3.6.4]", async () => {
  const lab = podLab('[{"name":"a","default-route":[]}]');
  lab.plugins.script("ptp ADD", (call) => {
    lab.plugins.work(call);
    lab.kernel.addDefaultRoute(netns, { dev: "eth0", gateway: "10.0.0.254" });
    return exited(0, interfaceResult(call, "10.0.0.1/24"));
  });
  // It skips the EEXIST of eth0's route.
  lab.plugins.script("bridge ADD", (call) => {
    lab.plugins.work(call);
    const route = { dst: "0.0.0.0/0", gw: "10.0.0.77" };
    return exited(0, { ...interfaceResult(call, "10.0.0.2/24"), routes: [route] });
  });
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(lab.kernel.defaultRoutes(netns)).toEqual(["via 10.0.0.77 dev net1 metric 0"]);
  const [main, net1] = lab.publisher.status("default/web");
  expect(main).not.toHaveProperty("gateway");
  expect(net1).toMatchObject({ gateway: ["10.0.0.77"], "default-route": ["10.0.0.77"] });
});

test("add() with an empty default-route logs that the network has no gateway", async () => {
  const lab = podLab('[{"name":"a","default-route":[]}]');
  lab.kernel.addLink(netns, "old", ["10.8.0.2/24"]);
  lab.kernel.addDefaultRoute(netns, { dev: "old", gateway: "10.8.0.1" });
  lab.plugins.script("bridge ADD", (call) => {
    lab.plugins.work(call);
    return exited(0, { ...interfaceResult(call, "10.0.0.2/24"), ips: [] });
  });
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(lab.kernel.defaultRoutes(netns)).toEqual(["via 10.8.0.1 dev old metric 0"]);
  expect(lab.logger.at("warn")).toContain(
    "the pod's default-route has no effect: its network has no gateway",
  );
});

test("add() refuses the result of another plugin, as it has to be the first of its list", async () => {
  const lab = podLab("a");
  const prevResult = { cniVersion: "1.0.0", interfaces: [{ name: "eth0", sandbox: netns }] };
  const { json } = await lab.add({ ...web, conf: { prevResult } });
  expectError({ json }, 7, "plexus must be the first plugin");
  expect(lab.journal).toEqual([]);
});

test("add() plans exactly the DELs that del() runs, last attachment first, in groups [R-0.3-14] [R-1.0-24]", async () => {
  const lab = podLab("a");
  lab.source.addNad("default/a", network("net-a", "bridge", "tuning"));
  await lab.add(web);
  const planned = lab.records.writes.at(-1)!.plan;
  expect(
    planned.steps.map(({ group, call }) => `${group} ${call.type} ${call.env.CNI_IFNAME}`),
  ).toEqual(["1 tuning net1", "1 bridge net1", "0 ptp eth0"]);
  await lab.del(web);
  const really = lab.plugins.calls.filter((call) => call.command === "DEL");
  const bare = ({ type, searchPath, env, stdin }: DelegateCall): object => ({
    type,
    searchPath,
    env,
    stdin,
  });
  expect(planned.steps.map(({ call }) => bare(call))).toEqual(really.map(bare));
});

test("add() plans each network's DELs without prevResult before its ADD, and with it afterwards [R-0.4-12]", async () => {
  const lab = podLab("a", undefined, { config: { publishStatus: "beforeReply" } });
  await lab.add(web);
  const prevResults = lab.records.writes.map(({ plan }) =>
    plan.steps.map(({ call }) => JSON.parse(call.stdin).prevResult?.ips[0].address),
  );
  expect(prevResults).toEqual([
    [undefined, undefined],
    [undefined, "10.0.0.1/24"],
    ["10.0.0.2/24", "10.0.0.1/24"],
  ]);
});

test.each([false, true])(
  "add() attaches a sandbox without a pod to the configured networks and looks up no pod (noSource: %s)",
  async (noSource) => {
    const lab = podLab("a", undefined, { noSource });
    expect(await lab.add()).toMatchObject({ exitCode: 0 });
    expect(lab.plugins.log()).toEqual(["ptp ADD eth0"]);
    expect(lab.source.asked).toEqual([]);
    expect(lab.records.writes[0]?.record.pod).toBeUndefined();
    expect(lab.publisher.published.size).toBe(0);
  },
);

test.each([
  ["that does not exist", "default/gone", false],
  ["that was replaced", "default/web/another-uid", false],
  ["without a source of pods", "default/web", true],
])("add() of a pod %s asks to try again later and attaches nothing", async (_, pod, noSource) => {
  const lab = podLab("a", undefined, { noSource });
  const { exitCode, json } = await lab.add({ pod });
  // An engine that cannot look pods up leaves the call to another one.
  expect({ exitCode, code: json.code }).toEqual({ exitCode: noSource ? 75 : 1, code: 11 });
  expect(json.msg).toContain(pod.split("/").slice(0, 2).join("/"));
  expect(lab.journal).toEqual([]);
});

test("add() finds a static pod by the UID that its mirror names, and publishes the status on the mirror", async () => {
  const lab = podLab("");
  const annotations = { [mirrorAnnotation]: "file-hash" };
  const mirror = { namespace: "kube-system", uid: "mirror", annotations };
  lab.source.addPod({ name: "etcd", ...mirror });
  expectError(await lab.add({ pod: "kube-system/etcd/another-hash" }), 11, "there is no pod");
  await lab.add({ pod: "kube-system/etcd/file-hash" });
  expect(lab.records.writes[0]?.record.pod?.uid).toBe("mirror");
  expect([...lab.publisher.published.keys()]).toEqual(["kube-system/etcd"]);
});

test("add() answers 'try again later' while the readiness file is missing, before it queries or records anything [N-6.1.2a]", async () => {
  const lab = podLab("a");
  lab.config = { readinessindicatorfile: "/run/default-ready" };
  lab.conf = { ...lab.conf, ...plexusdsListMark };
  const refused = await lab.add(web);
  expectError(refused, 11, "/run/default-ready");
  expect([lab.journal, lab.source.asked]).toEqual([[], []]);
  lab.files.write("/run/default-ready", "");
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
});

test("add() refuses an interface that is already attached and does not change it [R-1.0-14] [R-0.4-05]", async () => {
  const lab = podLab("a");
  await lab.add(web);
  lab.journal.length = 0;
  expect((await lab.add(web)).json).toMatchObject({ code: 103 });
  expect(lab.journal).toEqual([]);
  expect(lab.records.keys).toEqual(["c1@eth0"]);
});

test("add() passes the runtime's CNI_ARGS to delegates, but IP and MAC only to the default network", async () => {
  const lab = podLab("a");
  const CNI_ARGS =
    "K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;IP=10.1.2.3;MAC=02:11:22:33:44:55;X=y";
  await lab.add({ env: { CNI_ARGS } });
  const args = lab.plugins.calls.map((call) => call.env.CNI_ARGS);
  expect(args).toEqual([
    `IgnoreUnknown=1;${CNI_ARGS}`,
    "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;X=y",
  ]);
});

test("add() passes prevResult, name and version along a chain and returns its last result [N-7.1a] [R-0.3-11] [R-0.3-09]", async () => {
  const lab = new EngineLab({ conf: { delegates: [network("chain", "bridge", "tuning")] } });
  lab.plugins.script("tuning ADD", (call) => exited(0, interfaceResult(call, "10.9.9.9/16")));
  const { json } = await lab.add();
  const [bridge, tuning] = lab.plugins.calls;
  expect(bridge?.conf).toEqual({ cniVersion: "1.0.0", name: "chain", type: "bridge" });
  expect(tuning?.conf).toMatchObject({
    name: "chain",
    prevResult: { ips: [{ address: "10.0.0.1/24" }] },
  });
  expect(json).toMatchObject({ ips: [{ address: "10.9.9.9/16" }] });
});

test("add() attaches a definition whose keys have another case, and passes each key once, as CNI spells it", async () => {
  const keys = { CNIVersion: "0.4.0", Name: "unused", Type: "bridge", PrevResult: {}, Master: "x" };
  const plugin = { ...keys, Capabilities: { mac: true }, IPAM: { type: "dhcp" } };
  const lab = podLab(
    '[{"name": "a", "mac": "02:00:00:00:00:09"}]',
    {},
    {
      prepare: ({ source }) => source.addNad("default/a", plugin),
    },
  );
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.of("bridge", "ADD").map(({ conf }) => conf)).toEqual([
    {
      ...{ Master: "x", capabilities: { mac: true }, cniVersion: "0.4.0", ipam: { type: "dhcp" } },
      ...{ name: "a", runtimeConfig: { mac: "02:00:00:00:00:09" }, type: "bridge" },
    },
  ]);
});

test("add() attaches nothing if it cannot enter the namespace", async () => {
  const lab = podLab("a");
  const { json } = await lab.add({ ...web, env: { CNI_NETNS: "/run/netns/none" } });
  expect(json).toMatchObject({ code: 8, msg: expect.stringContaining("/run/netns/none") });
  expect(lab.journal).toEqual([]);
});
