import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import { EngineLab, expectError, netns, network, sandbox } from "#engine/testing/engine-lab.ts";
import { failed } from "#engine/testing/fake-plugins.ts";
import { cachedAddFileName } from "#npwg/multus/cached-add.ts";

/* Sandboxes that Multus 4.3.0 attached, by the files that it wrote (multus.md §1.12, §2.2). */

const web = { pod: "default/web/u1" };
const recorded = new URL("../../../../e2e/fixtures/multus/", import.meta.url);
const attachments = [
  { network: "main", ifName: "eth0" },
  { network: "storage", ifName: "data0" },
  { network: "single", ifName: "net2" },
];

function read(name: string): string {
  const text = readFileSync(new URL(name, recorded), "utf8");
  return text.replaceAll("a".repeat(64), sandbox.containerId).replaceAll("/run/netns/ns1", netns);
}

/** A sandbox that Multus attached, on a node whose default network has changed since. */
function labAfterMultus(): EngineLab {
  const lab = new EngineLab({ conf: { delegates: [network("main", "ptp")] } });
  lab.multusFiles.sandboxes.set(sandbox.containerId, read("networks"));
  for (const { network: name, ifName } of attachments) {
    lab.kernel.addLink(netns, ifName);
    const key = { network: name, containerId: sandbox.containerId, ifName };
    lab.multusFiles.cached.set(cachedAddFileName(key), read(`results/${name}-${ifName}`));
  }
  return lab;
}

const everything = [
  "bridge DEL net2",
  "portmap DEL data0",
  "macvlan DEL data0",
  "portmap DEL eth0",
  "ptp DEL eth0",
];

test("the DEL of doctor's page, without namespace and pod, detaches all networks", async () => {
  const lab = labAfterMultus();
  expect(await lab.del({ env: { CNI_NETNS: "", CNI_ARGS: "" } })).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(everything);
  expect(lab.logger.at("info")).toContain("DEL done");
});

test("DEL detaches all networks with Multus's cached data, removes its files, and queries no API", async () => {
  const lab = labAfterMultus();
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(everything);
  const [macvlan] = lab.plugins.of("macvlan", "DEL");
  expect(macvlan?.conf).toMatchObject({
    name: "storage",
    cniVersion: "1.0.0",
    ipam: { type: "host-local", ranges: [[{ subnet: "10.21.0.0/24" }]] },
    runtimeConfig: { ips: ["10.21.0.77/24"], mac: "02:00:00:00:00:77" },
    prevResult: { ips: [{ address: "10.21.0.77/24" }] },
  });
  expect(macvlan?.env.CNI_ARGS).toContain("MAC=02:00:00:00:00:77;IP=10.21.0.77/24");
  expect(lab.plugins.of("portmap", "DEL")[0]?.conf.runtimeConfig).toEqual({
    portMappings: [{ hostPort: 18080, containerPort: 80, protocol: "tcp" }],
  });
  expect(lab.plugins.of("ptp", "DEL")[0]?.conf).toMatchObject({
    ipam: { type: "host-local", subnet: "10.20.0.0/24" },
  });
  expect(new Set(lab.plugins.calls.map((call) => call.netns))).toEqual(new Set([netns]));
  const { record } = lab.records.writes[0]!;
  expect(record.pod).toEqual({ namespace: "default", name: "web", uid: "u1" });
  expect(record.attachments).toMatchObject([
    { isDefault: true, state: "attached" },
    { isDefault: false, state: "attached" },
    { isDefault: false, state: "attached" },
  ]);
  expect(lab.source.asked).toEqual([]);
  expect(lab.records.keys).toEqual([]);
  lab.plugins.calls.length = 0;
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual([]);
});

test("DEL records what it cannot detach, and the next DEL continues with the record", async () => {
  const lab = labAfterMultus();
  lab.plugins.script("macvlan DEL", failed(5, "busy"));
  expectError(await lab.del(web), 5, /network default\/storage \(data0\): .*busy/);
  expect(lab.plugins.log()).toEqual(everything);
  expect(lab.records.keys).toEqual(["c1@eth0"]);
  expect(lab.events.reasons).toEqual(["LeftoverAttachment"]);
  lab.plugins.calls.length = 0;
  lab.plugins.unscript("macvlan DEL");
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["macvlan DEL data0"]);
  expect(lab.records.keys).toEqual([]);
});

test("DEL whose shim disconnects before the first plugin leaves a record for the next DEL", async () => {
  const lab = labAfterMultus();
  const host = lab.host();
  host.goesAt = 2;
  await expect(lab.del({ ...web, host })).rejects.toThrow("the shim has gone");
  expect(lab.records.keys).toEqual(["c1@eth0"]);
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(everything);
});

test("DEL without cached results passes no prevResult and uses the configuration that Multus saved", async () => {
  const lab = labAfterMultus();
  lab.multusFiles.cached.clear();
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(everything);
  const [macvlan] = lab.plugins.of("macvlan", "DEL");
  expect(macvlan?.conf).not.toHaveProperty("prevResult");
  expect(lab.records.writes[0]?.record.attachments[0]?.state).toBe("attempted");
  expect(macvlan?.conf.runtimeConfig).toMatchObject({ mac: "02:00:00:00:00:77" });
});

test("DEL omits an invalid cached result with a warning", async () => {
  const lab = labAfterMultus();
  for (const name of lab.multusFiles.cached.keys()) lab.multusFiles.cached.set(name, "{");
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(everything);
  expect(lab.logger.at("warn")).toHaveLength(3);
});

test("DEL logs a damaged Multus file as an error and detaches the default network", async () => {
  const lab = labAfterMultus();
  lab.multusFiles.sandboxes.set(sandbox.containerId, "[{");
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["ptp DEL eth0"]);
  expect(lab.logger.at("error")).toEqual([expect.stringContaining("cannot use")]);
});

test("DEL fails if a Multus file is temporarily unreadable, so that it is retried", async () => {
  const lab = labAfterMultus();
  lab.multusFiles.failure = new CniError("IoFailure", "EIO");
  expect((await lab.del(web)).json).toMatchObject({ code: 5 });
  expect(lab.plugins.log()).toEqual([]);
});

test("DEL of a sandbox that Plexus attached uses its record and ignores Multus's file", async () => {
  const lab = labAfterMultus();
  for (const { ifName } of attachments) lab.kernel.removeLink(netns, ifName);
  lab.source.addPod({ name: "web", uid: "u1" });
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log("DEL")).toEqual(["ptp DEL eth0"]);
});

test("GC keeps the attachments of sandboxes that Multus attached, also if another runtime may have them", async () => {
  const lab = labAfterMultus();
  const storage = { ...network("storage", "macvlan"), cniVersion: "1.1.0" };
  lab.source.addNad("default/storage", storage);
  const annotations = { "k8s.v1.cni.cncf.io/networks": "storage" };
  lab.source.addPod({ name: "new", uid: "u2", annotations });
  lab.kernel.addNamespace("/run/netns/c2");
  const env = { CNI_CONTAINERID: "c2", CNI_NETNS: "/run/netns/c2", PLEXUS_NETNS: "ok" };
  expect(await lab.add({ pod: "default/new/u2", env })).toMatchObject({ exitCode: 0 });
  expect(await lab.gc(["c2"])).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.of("macvlan", "GC")[0]?.conf["cni.dev/valid-attachments"]).toEqual([
    { containerID: "c2", ifname: "net1" },
    { containerID: "c1", ifname: "data0" },
  ]);
  lab.multusFiles.sandboxes.set("c1", "{");
  lab.plugins.calls.length = 0;
  await lab.gc(["c1", "c2"]);
  expect(lab.plugins.log("GC")).toEqual([]);
});

/** A DEL of another interface of the container. */
const other = { ...web, env: { CNI_IFNAME: "eth1" } };

test("DEL of another interface leaves what Multus attached, by its files and by the annotation", async () => {
  const lab = labAfterMultus();
  lab.source.addNad("default/storage", network("storage", "macvlan"));
  const annotations = { "k8s.v1.cni.cncf.io/networks": "storage@data0" };
  lab.source.addPod({ name: "web", uid: "u1", annotations });
  expect(await lab.del(other)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["ptp DEL eth1"]);
  expect(lab.events.reasons).toEqual([]);
  // The shim removes Multus's files once there is a record.
  expect(lab.records.writes).toEqual([]);
  lab.plugins.calls.length = 0;
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(everything);
});

test("DEL of another interface gives further delegates no name that Multus has given", async () => {
  const lab = labAfterMultus();
  lab.conf = { delegates: [network("main", "ptp"), network("x", "bridge"), network("y", "vlan")] };
  expect(await lab.del(other)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["vlan DEL net3", "bridge DEL net1", "ptp DEL eth1"]);
});

test("DEL of another interface leaves what a record of Multus's files still has, if no result is cached", async () => {
  const lab = labAfterMultus();
  lab.multusFiles.cached.clear();
  lab.plugins.script("macvlan DEL", failed(5, "busy"));
  expect(await lab.del(web)).toMatchObject({ exitCode: 1 });
  lab.plugins.calls.length = 0;
  expect(await lab.del(other)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(
    everything
      .filter((each) => !each.endsWith("data0"))
      .map((each) => each.replace("eth0", "eth1")),
  );
  expect(lab.records.keys).toEqual(["c1@eth0"]);
});

test("DEL continues one of Multus that has detached the first network", async () => {
  const lab = labAfterMultus();
  const containerId = sandbox.containerId;
  lab.multusFiles.cached.delete(`main-${containerId}-eth0`);
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(everything);
  const twice = labWithPart(stored);
  const part = { ConfList: { plugins: [{}] }, Bytes: bytes(stored) };
  twice.multusFiles.sandboxes.set(containerId, JSON.stringify([part, part]));
  twice.multusFiles.cached.clear();
  twice.multusFiles.cached.set(`n-${containerId}-net1`, "{}");
  expect(await twice.del(web)).toMatchObject({ exitCode: 0 });
  expect(twice.plugins.log()).toEqual(["vlan DEL net1", "vlan DEL eth0"]);
});

test("DEL by Multus's files passes no namespace in which another container has one of the interfaces", async () => {
  const lab = labAfterMultus();
  for (const name of ["data0", "net2", "eth0"]) lab.kernel.removeLink(netns, name);
  lab.source.addNad("default/storage", network("storage", "macvlan"));
  const annotations = { "k8s.v1.cni.cncf.io/networks": "storage@data0" };
  lab.source.addPod({ name: "later", uid: "u2", annotations });
  const env = { CNI_CONTAINERID: "c2", CNI_IFNAME: "eth1" };
  expect(await lab.add({ pod: "default/later/u2", env })).toMatchObject({ exitCode: 0 });
  lab.plugins.calls.length = 0;
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(everything);
  expect(new Set(lab.plugins.calls.map((call) => call.netns))).toEqual(new Set([""]));
});

test.each([
  ["that is no pod", {}],
  ["of a pod without a UID", { pod: "default/web" }],
])("DEL of a sandbox %s records no pod", async (_, options) => {
  const lab = labAfterMultus();
  expect(await lab.del(options)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(everything);
  expect(lab.records.writes[0]?.record).not.toHaveProperty("pod");
});

test("DEL detaches by Multus's files although no record can be created", async () => {
  const lab = labAfterMultus();
  lab.records.create = () => Promise.reject(new Error("ENOSPC"));
  await lab.del(web);
  expect(lab.plugins.log()).toEqual(everything);
});

const bytes = (conf: object): string => Buffer.from(JSON.stringify(conf)).toString("base64");

/** As {@link labAfterMultus}, with one network, of whose list Multus has stored the first plugin. */
function labWithPart(stored: object, cached?: object): EngineLab {
  const lab = new EngineLab({ conf: { delegates: [network("main", "ptp")] } });
  const part = { ConfList: { plugins: [{}] }, Bytes: bytes(stored) };
  lab.multusFiles.sandboxes.set(sandbox.containerId, JSON.stringify([part]));
  const key = { networkName: "n", containerId: sandbox.containerId, ifName: "eth0" };
  const add = { kind: "cniCacheV1", ...key, ...(cached && { config: bytes(cached) }) };
  const name = cachedAddFileName({ network: "n", ...key });
  lab.multusFiles.cached.set(name, JSON.stringify(add));
  return lab;
}

const stored = { name: "n", plugins: [{ type: "vlan" }] };
const types = (...plugins: string[]) => ({ name: "n", plugins: plugins.map((type) => ({ type })) });

test.each<[string, cached: object | undefined, deleted: string[]]>([
  ["nothing cached", undefined, ["vlan"]],
  ["the whole list cached", types("vlan", "tuning"), ["tuning", "vlan"]],
  [
    "a list above the limits of an ADD",
    types(...new Array(40).fill("vlan")),
    new Array(40).fill("vlan"),
  ],
  ["an invalid list cached", types("../sh"), ["vlan"]],
  ["a list with a meta-plugin cached", types("vlan", "multus-shim"), ["vlan"]],
])("DEL of a list of which Multus has stored a part, with %s", async (_, cached, deleted) => {
  const lab = labWithPart(stored, cached);
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.calls.map(({ type }) => type)).toEqual(deleted);
  expect(lab.plugins.calls[0]?.conf.cniVersion).toBe("1.0.0");
});

test("DEL never executes a meta-plugin that Multus has stored", async () => {
  const lab = labWithPart({ name: "n", type: "multus-shim" });
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["ptp DEL eth0"]);
});

test("DEL fails if a cached result cannot be read now, so that it is retried", async () => {
  const lab = labAfterMultus();
  lab.multusFiles.cachedAdd = () => Promise.reject(new Error("EMFILE"));
  expect(await lab.del(web)).toMatchObject({ exitCode: 1 });
  expect(lab.plugins.log()).toEqual([]);
});
