import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { CniError, CniErrorCode } from "#cni/error.ts";
import { EngineLab, netns, network, sandbox } from "#engine/testing/engine-lab.ts";
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
  expect(lab.source.asked).toEqual([]);
  expect(lab.records.keys).toEqual([]);
  lab.plugins.calls.length = 0;
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["ptp DEL eth0"]);
});

test("DEL records what it cannot detach, and the next DEL continues with the record", async () => {
  const lab = labAfterMultus();
  lab.plugins.script("macvlan DEL", failed(5, "busy"));
  expect((await lab.del(web)).json).toMatchObject({
    code: 5,
    msg: expect.stringMatching(/network default\/storage \(data0\): .*busy/),
  });
  expect(lab.plugins.log()).toEqual(everything);
  expect(lab.records.keys).toEqual(["c1@eth0"]);
  expect(lab.events.reasons).toEqual(["LeftoverAttachment"]);
  lab.plugins.calls.length = 0;
  lab.plugins.unscript("macvlan DEL");
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["portmap DEL data0", "macvlan DEL data0"]);
  expect(lab.records.keys).toEqual([]);
});

test("DEL whose shim disconnects before the first order leaves a record for the next DEL", async () => {
  const lab = labAfterMultus();
  const host = lab.host();
  host.goesAt = 0;
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
  lab.multusFiles.failure = new CniError(CniErrorCode.IoFailure, "EIO");
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
  const valid = lab.plugins.of("macvlan", "GC")[0]?.conf["cni.dev/valid-attachments"];
  expect(valid).toEqual([
    { containerID: "c2", ifname: "net1" },
    { containerID: "c1", ifname: "data0" },
  ]);
  lab.multusFiles.sandboxes.set("c1", "{");
  lab.plugins.calls.length = 0;
  await lab.gc(["c1", "c2"]);
  expect(lab.plugins.log("GC")).toEqual([]);
});
