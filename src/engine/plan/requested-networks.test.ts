import { expect, test } from "vitest";
import { EngineLab, expectError, netns, network, sandbox } from "#engine/testing/engine-lab.ts";
import { exited, interfaceResult } from "#engine/testing/fake-plugins.ts";
import type { JsonObject } from "#lib/json.ts";
import { defaultNetworkAnnotation, networksAnnotation } from "#npwg/selection/selection.ts";

const web = { pod: "default/web" };

function podWith(annotations: Record<string, string>, conf: JsonObject = {}): EngineLab {
  const lab = new EngineLab({ conf: { delegates: [network("main", "ptp")], ...conf } });
  lab.source.addPod({ name: "web", annotations });
  return lab;
}

const asking = (networks: string, conf?: JsonObject): EngineLab =>
  podWith({ [networksAnnotation]: networks }, conf);

function capable(name: string, type: string, ...capabilities: string[]): JsonObject {
  const declared = Object.fromEntries(capabilities.map((key) => [key, true]));
  return { ...network(name), plugins: [{ type, capabilities: declared }] };
}

test.each([
  ["storag", {}, "default/storag, which the pod asks for; did you mean storage?"],
  ["db", {}, "default/db, which the pod asks for; did you mean shop/db?"],
  ["db", { namespaceIsolation: true }, "default/db, which the pod asks for"],
  ["shop/secrt", {}, "shop/secrt, which the pod asks for"],
])("a missing definition %s may be another one: %j", async (networks, conf, problem) => {
  const lab = asking(networks, conf);
  lab.source.addNad("default/storage", network("storage"));
  lab.source.addNad("shop/db", network("db"));
  lab.source.addNad("shop/secret", network("secret"));
  const msg = expect.stringMatching(
    new RegExp(`NetworkAttachmentDefinition ${problem.replace("?", "\\?")}$`),
  );
  expect((await lab.add(web)).json).toMatchObject({ msg });
});

/** Definitions that are all asked for before the first one is answered, and the last one first. */
function withSlowDefinitions(lab: EngineLab, count: number): void {
  const getNad = lab.source.getNad.bind(lab.source);
  const answers: (() => void)[] = [];
  lab.source.getNad = async (ref) => {
    const found = getNad(ref);
    found.catch(() => undefined);
    const { promise, resolve } = Promise.withResolvers<void>();
    if (answers.unshift(resolve) === count) for (const each of answers) each();
    await promise;
    return found;
  };
}

const many = Array.from({ length: 15 }, (_, i) => `n${i}`);

test("an ADD asks for all definitions of a pod at once: the shim does not wait for one after the other", async () => {
  const lab = podWith({ [networksAnnotation]: many.join(), [defaultNetworkAnnotation]: "fast" });
  lab.source.addNad("kube-system/fast", network("fast", "ptp"));
  for (const name of many) lab.source.addNad(`default/${name}`, network(name, "bridge"));
  withSlowDefinitions(lab, 16);
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  const attached = lab.plugins.calls.map(({ conf }) => conf.name);
  expect(attached).toEqual(["fast", ...many]);
});

test("an ADD asks at once for the default networks, too", async () => {
  const lab = podWith({}, { defaultNetworks: ["logs", "metrics"] });
  const { delegates: _inline, ...conf } = lab.conf;
  lab.conf = { ...conf, clusterNetwork: "main" };
  for (const name of ["main", "logs", "metrics"]) {
    lab.source.addNad(`kube-system/${name}`, network(name, "bridge"));
  }
  withSlowDefinitions(lab, 3);
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
});

test("of several definitions that cannot be used, the annotation's first is reported", async () => {
  const lab = asking("a,b,c");
  lab.source.addNad("default/a", network("a", "bridge"));
  withSlowDefinitions(lab, 3);
  expectError(await lab.add(web), 100, "default/b");
});

test("a conf without a name gets the definition's name, which also finds the conf on disk [N-3.4.2] [N-3.4.1a] [N-3.4.1b]", async () => {
  const lab = asking("nameless,ondisk");
  lab.source.addNad("default/nameless", { cniVersion: "1.0.0", type: "bridge" });
  lab.source.addNad("default/ondisk");
  lab.files.write("/etc/cni/plexus/net.d/x.conflist", network("ondisk", "macvlan"));
  await lab.add(web);
  expect(lab.plugins.calls.map((call) => call.conf.name)).toEqual(["main", "nameless", "ondisk"]);
});

test("an invalid annotation is ignored with an event, a log line and a status entry [N-4.1.2.1.4b]", async () => {
  const lab = asking('[{"name":"a"},{"name":"b","mac":"zz"}]');
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["ptp ADD eth0"]);
  const saysWhat = expect.stringMatching(/element 2.*mac.*zz/);
  expect(lab.events.recorded[0]).toMatchObject({
    reason: "InvalidAnnotation",
    message: saysWhat,
  });
  expect(lab.logger.at("warn")).toEqual([saysWhat]);
  expect(lab.publisher.status("default/web")).toMatchObject([
    { name: "main", default: true, "plexus.dev/annotation-error": saysWhat },
  ]);
});

test("unknown keys of the annotation are one event, and the pod is attached", async () => {
  const lab = asking('[{"name":"a","ip":["10.0.0.9/24"],"IPS":[],"mac_address":"zz","vlan":5}]');
  lab.source.addNad("default/a", network("a", "macvlan"));
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  const annotation = "network selection annotation: element 1, key";
  const message = [
    `${annotation} "ip": unknown key, ignored, its value being ["10.0.0.9/24"]; did you mean ips?`,
    `${annotation} "mac_address": unknown key, ignored, its value being "zz"`,
    `${annotation} "vlan": unknown key, ignored, its value being 5`,
  ].join("; ");
  expect(lab.events.recorded).toMatchObject([
    { type: "Warning", reason: "UnknownKey", message },
    { type: "Normal", reason: "AddedInterface" },
  ]);
  expect(lab.logger.at("warn")).toEqual([
    expect.stringContaining('"IPS": read as "ips"'),
    expect.stringContaining(message),
  ]);
});

test("unknown keys of the default-network annotation are an event", async () => {
  const lab = podWith({ [defaultNetworkAnnotation]: '[{"name":"a","ips_":[]}]' });
  lab.source.addNad("kube-system/a", network("a", "macvlan"));
  await lab.add(web);
  expect(lab.events.recorded[0]).toMatchObject({
    reason: "UnknownKey",
    message: expect.stringContaining('default network annotation: element 1, key "ips_"'),
  });
});

test("requests become runtimeConfig only of that network's plugins that declare the capability [N-4.1.2.1.3.2a]", async () => {
  const lab = asking('[{"name":"a","ips":["10.1.1.1/24"]},{"name":"b"}]');
  const chain = {
    ...capable("net-a", "bridge", "ips"),
    plugins: [{ type: "bridge", capabilities: { ips: true } }, { type: "tuning" }],
  };
  lab.source.addNad("default/a", chain);
  lab.source.addNad("default/b", capable("net-b", "macvlan", "ips"));
  await lab.add(web);
  expect(lab.plugins.calls.map((call) => [call.type, call.conf.runtimeConfig])).toEqual([
    ["ptp", undefined],
    ["bridge", { ips: ["10.1.1.1/24"] }],
    ["tuning", undefined],
    ["macvlan", undefined],
  ]);
  await lab.del(web);
  expect(lab.plugins.of("bridge", "DEL")[0]?.conf.runtimeConfig).toEqual({
    ips: ["10.1.1.1/24"],
  });
});

test("cni-args override the definition's, key by key [N-4.1.2.1.6.2b]", async () => {
  const lab = asking('[{"name":"a","cni-args":{"vlan":7}}]');
  const plugin = { type: "bridge", args: { cni: { vlan: 1, queue: 2 }, other: true } };
  lab.source.addNad("default/a", { ...network("net-a"), plugins: [plugin] });
  await lab.add(web);
  expect(lab.plugins.calls[1]?.conf.args).toEqual({ cni: { vlan: 7, queue: 2 }, other: true });
});

const claimed = (claim: string): string =>
  JSON.stringify([{ name: "a", "ipam-claim-reference": claim }]);

test("the plugins of each operation get the name of an IPAMClaim as recorded, without the pod", async () => {
  const lab = podWith({
    [defaultNetworkAnnotation]: claimed("vm.pod"),
    [networksAnnotation]: claimed("vm.a"),
  });
  lab.config = { ...lab.config, checkDelegates: "all" };
  lab.source.addNad("kube-system/a", network("net-d", "macvlan"));
  lab.source.addNad("default/a", network("net-a", "bridge"));
  await lab.add(web);
  lab.source.removePod("default/web");
  expect(await lab.check(web)).toMatchObject({ exitCode: 0 });
  lab.kernel.removeNamespace(netns);
  expect(await lab.gc([])).toMatchObject({ exitCode: 0 });
  const claimOf = (type: string, command: string): unknown =>
    lab.plugins.of(type, command).map(({ conf }) => (conf.args as JsonObject).cni);
  for (const command of ["ADD", "CHECK", "DEL"]) {
    expect(claimOf("macvlan", command)).toEqual([{ "ipam-claim-reference": "vm.pod" }]);
    expect(claimOf("bridge", command)).toEqual([{ "ipam-claim-reference": "vm.a" }]);
  }
});

test("a pod with a name that no IPAMClaim can have does not start, except with strictness: multus", async () => {
  const lab = asking(claimed("vm_1"));
  lab.source.addNad("default/a", network("net-a", "bridge"));
  expectError(await lab.add(web), 100, /"default\/a": key "ipam-claim-reference": .*, got "vm_1"/);
  expect(lab.plugins.calls).toEqual([]);
  lab.config = { ...lab.config, strictness: "multus" };
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
});

const isolated = { namespaceIsolation: true, globalNamespaces: ["shared"] };

test.each([
  ["the pod's own namespace", "default/a"],
  ["a global namespace", "shared/a"],
])("namespace isolation allows networks of %s [N-7.4]", async (_, path) => {
  const lab = asking(path, isolated);
  lab.source.addNad(path, network("net-a", "bridge"));
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
});

test("namespace isolation does not apply to networks in the node's configuration", async () => {
  const lab = podWith({}, { defaultNetworks: ["logs"], ...isolated });
  const { delegates: _inline, ...conf } = lab.conf;
  lab.conf = { ...conf, clusterNetwork: "main" };
  lab.source.addNad("kube-system/main", network("main", "ptp"));
  lab.source.addNad("kube-system/logs", network("logs", "bridge"));
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
});

test("the default-network annotation replaces the default network, and its requests override runtimeConfig", async () => {
  const lab = podWith({
    [defaultNetworkAnnotation]: '[{"name":"fast","ips":["10.1.1.1/24"]}]',
    [networksAnnotation]: "a",
  });
  lab.source.addNad("kube-system/fast", capable("net-fast", "macvlan", "ips", "portMappings"));
  lab.source.addNad("default/a", network("net-a", "bridge"));
  await lab.add({
    ...web,
    conf: { runtimeConfig: { portMappings: [{ hostPort: 1 }], ips: ["10.9.9.9/24"] } },
  });
  expect(lab.plugins.log()).toEqual(["macvlan ADD eth0", "bridge ADD net1"]);
  expect(lab.plugins.calls[0]?.conf.runtimeConfig).toEqual({
    portMappings: [{ hostPort: 1 }],
    ips: ["10.1.1.1/24"],
  });
  expect(lab.publisher.status("default/web")).toMatchObject([
    { name: "kube-system/fast", default: true },
    { name: "default/a", default: false },
  ]);
});

test("an interface that already exists fails the ADD before any plugin runs [N-4.1.2.1.5b]", async () => {
  const lab = asking("a@data");
  lab.source.addNad("default/a", network("net-a", "bridge"));
  lab.kernel.addLink("/run/netns/c1", "data");
  expectError(await lab.add(web), 100, "already exists");
  expect(lab.journal).toEqual([]);
});

const fixed = '[{"name":"a","mac":"02:00:00:00:00:0a","ips":["10.1.1.1/24"]}]';

test("mac and ips are in CNI_ARGS as well as in runtimeConfig, also at DEL (multus.md §2.1 8d)", async () => {
  const lab = asking(fixed);
  lab.source.addNad("default/a", capable("net-a", "bridge", "ips", "mac"));
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  await lab.del(web);
  for (const command of ["ADD", "DEL"]) {
    const [call] = lab.plugins.of("bridge", command);
    expect(call?.env.CNI_ARGS).toMatch(/;MAC=02:00:00:00:00:0a;IP=10\.1\.1\.1\/24$/);
    expect(call?.conf.runtimeConfig).toEqual({ mac: "02:00:00:00:00:0a", ips: ["10.1.1.1/24"] });
    expect(lab.plugins.of("ptp", command)[0]?.env.CNI_ARGS).not.toMatch(/MAC|IP=/);
  }
});

test("a plugin that declares a request and ignores it fails the ADD, which is rolled back", async () => {
  const lab = asking(fixed);
  lab.source.addNad("default/a", capable("net-a", "bridge", "ips", "mac"));
  lab.plugins.script("bridge ADD", (call) => exited(0, interfaceResult(call, "10.1.1.9/24")));
  expectError(
    await lab.add(web),
    100,
    /network default\/a \(net1\): plugin bridge ignored the key "ips": the pod asks for 10\.1\.1\.1\/24, the result has 10\.1\.1\.9\/24; plugin bridge ignored the key "mac"/,
  );
  expect(lab.plugins.log("DEL")).toEqual(["bridge DEL net1", "ptp DEL eth0"]);
  expect(lab.records.keys).toEqual([]);
  expect(lab.events.reasons).toEqual(["IgnoredRequest"]);
});

test("strictness: multus has undeclared requests in CNI_ARGS; log, event, status and record say what was ignored", async () => {
  const lab = asking(fixed, { strictness: "multus" });
  lab.source.addNad("default/a", network("net-a", "bridge"));
  lab.plugins.script("bridge ADD", (call) => exited(0, interfaceResult(call, "10.1.1.9/24")));
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  const [call] = lab.plugins.of("bridge", "ADD");
  expect(call?.env.CNI_ARGS).toMatch(/;MAC=02:00:00:00:00:0a;IP=10\.1\.1\.1\/24$/);
  expect(call?.conf).not.toHaveProperty("runtimeConfig");
  const ignored = [
    { key: "ips", asked: "10.1.1.1/24", got: "10.1.1.9/24" },
    { key: "mac", asked: "02:00:00:00:00:0a", got: "02:00:00:00:00:02" },
  ];
  const words = 'network default/a (net1): plugin bridge ignored the key "ips"';
  expect(lab.logger.lines.filter(({ level }) => level === "warn")).toEqual([
    {
      level: "warn",
      message: expect.stringContaining(words),
      fields: expect.objectContaining({ network: "default/a", ifName: "net1" }),
    },
  ]);
  expect(lab.events.reasons).toEqual(["AddedInterface", "IgnoredRequest"]);
  expect(lab.events.recorded.at(-1)?.message).toContain(words);
  const status = lab.publisher.status("default/web");
  expect(status[0]).not.toHaveProperty(["plexus.dev/ignored-requests"]);
  expect(status[1]).toMatchObject({ "plexus.dev/ignored-requests": ignored });
  expect((await lab.records.load(sandbox))?.record.attachments[1]).toMatchObject({
    ignoredRequests: ignored,
  });
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
});

test("the event about ignored requests has at most 300 characters", async () => {
  const networks = ["a", "b", "c", "d"].map((name) => ({ name, mac: "02:00:00:00:00:0a" }));
  const lab = asking(JSON.stringify(networks), { strictness: "multus" });
  for (const { name } of networks) lab.source.addNad(`default/${name}`, network(name, "bridge"));
  lab.plugins.script("bridge ADD", (call) => exited(0, interfaceResult(call, "10.1.1.9/24")));
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(lab.events.recorded.at(-1)?.message).toHaveLength(300);
});

test.each([
  ["K8S_POD_NAMESPACE=default"],
  ["K8S_POD_NAMESPACE=;K8S_POD_NAME=web"],
  ["K8S_POD_UID=1"],
  ["K8S_POD_NAME=web"],
])("CNI_ARGS with an incomplete pod (%s) are an error, not a missing pod", async (args) => {
  const lab = asking("a");
  const env = { CNI_ARGS: `IgnoreUnknown=1;${args}` };
  expectError(await lab.add({ env }), 4, "do not name a pod");
  expect(lab.journal).toEqual([]);
  expect(await lab.del({ env })).toMatchObject({ exitCode: 0 });
});
