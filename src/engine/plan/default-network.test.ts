import { expect, test } from "vitest";
import { EngineLab, network } from "#engine/testing/engine-lab.ts";
import type { JsonObject } from "#lib/json.ts";
import { defaultNetworkAnnotation, networksAnnotation } from "#npwg/selection/selection.ts";

const web = { pod: "default/web" };
const confDir = "/etc/cni/plexus/net.d";

function labWith(conf: JsonObject): EngineLab {
  const lab = new EngineLab({ conf });
  lab.source.addPod({ name: "web" });
  return lab;
}

test("clusterNetwork names a NetworkAttachmentDefinition in the plexus namespace", async () => {
  const lab = labWith({ clusterNetwork: "main", plexusNamespace: "nets" });
  lab.source.addNad("nets/main", network("cni-main", "ptp"));
  lab.source.addNad("default/main", network("wrong", "bridge"));
  await lab.add(web);
  expect(lab.plugins.log()).toEqual(["ptp ADD eth0"]);
  expect(lab.publisher.status("default/web")).toMatchObject([{ name: "nets/main", default: true }]);
});

test("clusterNetwork names a CNI network on disk if there is no such definition [N-6a]", async () => {
  const lab = labWith({ clusterNetwork: "flannel" });
  lab.files.write(`${confDir}/10-x.conflist`, network("flannel", "ptp"));
  await lab.add(web);
  expect(lab.source.asked).toContain("nad kube-system/flannel");
  expect(lab.publisher.status("default/web")).toMatchObject([{ name: "flannel", default: true }]);
});

test("clusterNetwork may be a definition without a config, whose name is then searched on disk [N-3.4.1b]", async () => {
  const lab = labWith({ clusterNetwork: "flannel" });
  lab.source.addNad("kube-system/flannel");
  lab.files.write(`${confDir}/10-x.conflist`, network("flannel", "bridge"));
  await lab.add(web);
  expect(lab.plugins.log()).toEqual(["bridge ADD eth0"]);
  expect(lab.publisher.status("default/web")).toMatchObject([{ name: "kube-system/flannel" }]);
});

test("a network on disk is the primary CNI's, not Plexus's list of the same name", async () => {
  const lab = labWith({ clusterNetwork: "flannel", confDir: "/etc/cni/net.d" });
  lab.files.write("/etc/cni/net.d/00-plexus.conflist", network("flannel", "plexus"));
  lab.files.write("/etc/cni/net.d/10-x.conflist", network("flannel", "ptp"));
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["ptp ADD eth0"]);
});

test("clusterNetwork names a CNI network on disk if there is no source of definitions", async () => {
  const lab = new EngineLab({ noSource: true, conf: { clusterNetwork: "flannel" } });
  lab.files.write(`${confDir}/10-x.conflist`, network("flannel", "ptp"));
  expect(await lab.add()).toMatchObject({ exitCode: 0 });
});

test("an empty readinessindicatorfile is none", async () => {
  const lab = new EngineLab({ config: { readinessindicatorfile: "" } });
  expect(await lab.add()).toMatchObject({ exitCode: 0 });
});

test("clusterNetwork may be a file, and then no definition is looked up", async () => {
  const lab = labWith({ clusterNetwork: "/etc/cni/net.d/10-flannel.conflist" });
  lab.files.write("/etc/cni/net.d/10-flannel.conflist", network("flannel", "ptp"));
  expect(await lab.add()).toMatchObject({ exitCode: 0 });
  expect(lab.source.asked).toEqual([]);
});

test("clusterNetwork may be a directory, whose first valid network is used", async () => {
  const lab = labWith({ clusterNetwork: "/etc/cni/net.d" });
  lab.files.write("/etc/cni/net.d/00-plexus.conflist", network("plexus", "plexus", "tuning"));
  lab.files.write("/etc/cni/net.d/05-broken.conflist", "{");
  lab.files.write("/etc/cni/net.d/06-loopback.conf", { name: "lo", type: "loopback" });
  lab.files.write("/etc/cni/net.d/10-first.conflist", network("first", "ptp"));
  lab.files.write("/etc/cni/net.d/20-second.conflist", network("second", "bridge"));
  await lab.add();
  expect(lab.plugins.log()).toEqual(["ptp ADD eth0"]);
  expect(lab.logger.at("warn")).toEqual([expect.stringContaining("05-broken.conflist")]);
});

test.each([
  [[{ type: "istio-cni" }, { type: "x" }], ["ptp ADD eth0"]],
  [[{ type: "istio-cni", name: "istio-cni" }], ["ptp ADD eth0", "istio-cni ADD eth0"]],
  [
    [{ type: "ptp" }, { type: "istio-cni" }],
    ["ptp ADD eth0", "istio-cni ADD eth0"],
  ],
  [undefined, ["ptp ADD eth0", "istio-cni ADD eth0"]],
])("omittedPlugins %j leaves out plugins, unless none would be left", async (omitted, log) => {
  const conf = { clusterNetwork: "/main.conflist", ...(omitted && { omittedPlugins: omitted }) };
  const lab = labWith(conf);
  lab.files.write("/main.conflist", network("main", "ptp", "istio-cni"));
  expect(await lab.add()).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log("ADD")).toEqual(log);
  lab.plugins.calls.length = 0;
  expect(await lab.del()).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log("DEL")).toEqual(log.map((call) => call.replace("ADD", "DEL")).reverse());
});

test("a default network of a later minor version is called in the newest version that Plexus knows", async () => {
  const lab = labWith({ clusterNetwork: "/main.conflist" });
  lab.files.write("/main.conflist", { ...network("main", "ptp"), cniVersion: "1.2.0" });
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  // As a runtime passes it that has read such a version in Plexus's file.
  const conf = { cniVersion: "1.2.0" };
  expect(await lab.del({ ...web, conf })).toMatchObject({ exitCode: 0 });
  expect(await lab.del({ conf, env: { CNI_CONTAINERID: "other" } })).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["ptp ADD eth0", "ptp DEL eth0", "ptp DEL eth0"]);
  expect(lab.plugins.calls.map((call) => call.conf.cniVersion)).toEqual([
    "1.1.0",
    "1.1.0",
    "1.1.0",
  ]);
});

test("a network of a version that Plexus lacks fails before any plugin runs, and its DEL runs", async () => {
  const lab = labWith({ clusterNetwork: "/main.conflist" });
  lab.files.write("/main.conflist", { ...network("main", "ptp"), cniVersion: "2.0.0" });
  const answers = [await lab.add(web), await lab.status({ conf: { cniVersion: "1.1.0" } })];
  for (const { json } of answers)
    expect(json.msg).toMatch(/main.conflist: incompatible CNI versions/);
  expect(answers.map(({ json }) => json.code)).toEqual([1, 50]);
  expect(await lab.del({ conf: { cniVersion: "banana" } })).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["ptp DEL eth0"]);
});

test("clusterNetwork is not searched on disk if its definition cannot be looked up, and ADD is retried", async () => {
  const lab = labWith({ clusterNetwork: "flannel" });
  lab.files.write(`${confDir}/10-x.conflist`, network("flannel", "ptp"));
  lab.source.failure = new Error("API server away");
  expect((await lab.add()).json).toMatchObject({ msg: expect.stringContaining("API server away") });
  expect(lab.plugins.log()).toEqual([]);
});

test("delegates are inline confs or conflists; all are attached, the first as the default network", async () => {
  const single = { cniVersion: "1.0.0", name: "single", type: "bridge" };
  const lab = labWith({ delegates: [network("list", "ptp"), single] });
  await lab.add(web);
  expect(lab.plugins.log()).toEqual(["ptp ADD eth0", "bridge ADD net1"]);
  expect(lab.publisher.status("default/web")).toMatchObject([
    { name: "list", default: true },
    { name: "single", default: false },
  ]);
});

/** The networks `main` (default), `storage` and `logs` (of every pod) and `own` (of the pod `web`). */
function withDefaultNetworks(namespace = "default", annotations: JsonObject = {}): EngineLab {
  const lab = labWith({ clusterNetwork: "main", defaultNetworks: ["storage", "logs"] });
  for (const [name, type] of [
    ["main", "ptp"],
    ["storage", "bridge"],
    ["logs", "macvlan"],
  ] as const) {
    lab.source.addNad(`kube-system/${name}`, network(name, type));
  }
  lab.source.addNad(`${namespace}/own`, network("own", "ipvlan"));
  const own = { [networksAnnotation]: "own", ...(annotations as Record<string, string>) };
  lab.source.addPod({ name: "web", namespace, annotations: own });
  return lab;
}

const interfaceless = { name: "storage", namespace: "kube-system" };

test.each<[what: string, annotations: JsonObject, attached: string[]]>([
  [
    "once",
    { [networksAnnotation]: "own, kube-system/storage" },
    ["macvlan ADD net1", "ipvlan ADD net2", "bridge ADD net3"],
  ],
  [
    "with its requests",
    { [networksAnnotation]: JSON.stringify([{ ...interfaceless, interface: "data0" }]) },
    ["macvlan ADD net1", "bridge ADD data0"],
  ],
  [
    "as often as it is named",
    { [networksAnnotation]: "kube-system/storage@a0, kube-system/storage" },
    ["macvlan ADD net1", "bridge ADD a0", "bridge ADD net3"],
  ],
  [
    "beside one of the same name in another namespace",
    { [networksAnnotation]: "own, storage" },
    ["bridge ADD net1", "macvlan ADD net2", "ipvlan ADD net3", "vlan ADD net4"],
  ],
])("a default network in the annotation is attached %s", async (_, annotations, attached) => {
  const lab = withDefaultNetworks("default", annotations);
  lab.source.addNad("default/storage", network("other", "vlan"));
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["ptp ADD eth0", ...attached]);
});

test("a network of defaultNetworks that replaces a pod's default network is attached once", async () => {
  const lab = withDefaultNetworks("default", { [defaultNetworkAnnotation]: "storage" });
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["bridge ADD eth0", "macvlan ADD net1", "ipvlan ADD net2"]);
});

test("a pod can name the cluster default network for a second interface", async () => {
  const lab = withDefaultNetworks("default", { [networksAnnotation]: "kube-system/main" });
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  const attached = lab.plugins.log();
  expect(attached).toContain("ptp ADD net3");
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  const detached = attached.toReversed().map((line) => line.replace("ADD", "DEL"));
  expect(lab.plugins.log("DEL")).toEqual(detached);
});

test("defaultNetworks skip pods in system namespaces, but not pods that are only named like one", async () => {
  const system = withDefaultNetworks("kube-system");
  await system.add({ pod: "kube-system/web" });
  expect(system.plugins.log()).toEqual(["ptp ADD eth0", "ipvlan ADD net1"]);
  const lab = withDefaultNetworks();
  lab.source.addPod({ name: "kube-system" });
  await lab.add({ pod: "default/kube-system" });
  expect(lab.plugins.log()).toHaveLength(3);
});

test("defaultNetworks skip sandboxes without a pod", async () => {
  const lab = withDefaultNetworks();
  await lab.add();
  expect(lab.plugins.log()).toEqual(["ptp ADD eth0"]);
});

test("the runtime's runtimeConfig is passed only to the default network's plugins that declare the capability [N-7.5] [R-1.0-26]", async () => {
  const capabilities = { portMappings: true, bandwidth: true };
  const lab = labWith({
    delegates: [
      {
        ...network("main"),
        plugins: [{ type: "ptp" }, { type: "portmap", capabilities: { portMappings: true } }],
      },
      { ...network("more"), plugins: [{ type: "bridge", capabilities }] },
    ],
  });
  lab.source.addNad("default/own", {
    ...network("own"),
    plugins: [{ type: "macvlan", capabilities }],
  });
  lab.source.addPod({ name: "web", annotations: { [networksAnnotation]: "own" } });
  const runtimeConfig = { portMappings: [{ HostPort: 80 }], bandwidth: { IngressRate: 1 } };
  await lab.add({ ...web, conf: { runtimeConfig } });
  const seen = lab.plugins.calls.map((call) => [call.type, call.conf.runtimeConfig]);
  expect(seen).toEqual([
    ["ptp", undefined],
    ["portmap", { portMappings: [{ HostPort: 80 }] }],
    ["bridge", undefined],
    ["macvlan", undefined],
  ]);
  expect(lab.records.writes[0]?.record.attachments[0]?.capabilityArgs).toEqual(runtimeConfig);
});
