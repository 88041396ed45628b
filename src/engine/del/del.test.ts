import { expect, test } from "vitest";
import { HostGoneError } from "#engine/ports/host.ts";
import { EngineLab, expectError, netns, network } from "#engine/testing/engine-lab.ts";
import { exited, failed } from "#engine/testing/fake-plugins.ts";
import { attachedPod, podLab, web } from "#engine/testing/pod-lab.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";

/** A pod that is attached to ptp on eth0, bridge on net1, and macvlan and tuning on net2. */
const attached = (): Promise<EngineLab> =>
  attachedPod("a,b", { a: ["bridge"], b: ["macvlan", "tuning"] });

const everything = ["tuning DEL net2", "macvlan DEL net2", "bridge DEL net1", "ptp DEL eth0"];

test("del() detaches in the reverse order of ADD, then removes the record [R-0.3-14] [R-0.4-14] [R-1.0-24]", async () => {
  const lab = await attached();
  expect(await lab.del(web)).toMatchObject({ exitCode: 0, stdout: "" });
  expect(lab.journal).toEqual([
    "tuning DEL net2",
    "macvlan DEL net2",
    "bridge DEL net1",
    "update c1@eth0",
    "ptp DEL eth0",
    "update c1@eth0",
    "finish c1@eth0",
  ]);
  expect(lab.kernel.linkNames(netns)).toEqual([]);
});

test("del() uses the record, not the current annotation, definition or configuration, and queries nothing [S-403]", async () => {
  const lab = await attached();
  const before = [...lab.records.writes.at(-1)!.plan.steps.map(({ call }) => call.stdin)];
  lab.source.addPod({ name: "web", annotations: { [networksAnnotation]: "b" } });
  lab.source.addNad("default/a", network("other", "ipvlan"));
  lab.source.removeNad("default/b");
  lab.conf = { clusterNetwork: "something-else" };
  lab.config = { readinessindicatorfile: "/run/not-there" };
  lab.source.failure = new Error("API server away");
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(everything);
  expect(lab.plugins.calls.map((call) => call.stdin)).toEqual(before);
  expect(lab.source.asked).toEqual([]);
});

test("del() passes every plugin the final result and the same container, network and interface as ADD [R-0.4-12] [R-1.0-24] [N-4.2.1a]", async () => {
  const lab = await attached();
  await lab.del(web);
  const seen = lab.plugins.calls.map(({ type, containerId, ifName, conf }) => {
    const { name, prevResult } = conf as {
      name: string;
      prevResult?: { ips: { address: string }[] };
    };
    return [type, containerId, name, ifName, prevResult?.ips[0]?.address];
  });
  expect(seen).toEqual([
    ["tuning", "c1", "net-b", "net2", "10.0.0.3/24"],
    ["macvlan", "c1", "net-b", "net2", "10.0.0.3/24"],
    ["bridge", "c1", "net-a", "net1", "10.0.0.2/24"],
    ["ptp", "c1", "default-net", "eth0", "10.0.0.1/24"],
  ]);
});

test("del() that fails for one network detaches the others, records and reports it, and can be retried [N-7.2b] [N-7.2c]", async () => {
  const lab = await attached();
  lab.plugins.script("macvlan DEL", failed(117, "parent busy"));
  const msg = 'network default/b (net2): plugin type="macvlan" failed (delete): parent busy';
  const { exitCode, json } = await lab.del(web);
  expect({ exitCode, json }).toEqual({
    exitCode: 1,
    json: { cniVersion: "1.0.0", code: 117, msg },
  });
  expect(lab.plugins.log()).toEqual(everything);
  expect(await lab.del(web)).toMatchObject({ exitCode: 1 });
  expect(lab.records.keys).toEqual(["c1@eth0"]);
  expect(lab.records.writes.at(-1)?.record.teardown).toMatchObject({ attempts: 2, lastError: msg });
  expect(lab.events.recorded.at(-1)).toMatchObject({
    pod: "default/web",
    type: "Warning",
    reason: "LeftoverAttachment",
    message: expect.stringContaining(msg),
  });
  expect(lab.publisher.withdrawn).toEqual([]);
  lab.plugins.unscript("macvlan DEL");
  lab.plugins.calls.length = 0;
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["macvlan DEL net2"]);
  expect(lab.records.keys).toEqual([]);
  expect(lab.publisher.withdrawn).toEqual(["default/web"]);
});

test("del() stops a chain at its first error [R-0.3-15] [R-1.0-24]", async () => {
  const lab = await attached();
  lab.plugins.script("tuning DEL", failed(117, "busy"));
  await lab.del(web);
  expect(lab.plugins.log()).toEqual(["tuning DEL net2", "bridge DEL net1", "ptp DEL eth0"]);
});

test("del() ignores the output of plugins that succeed [R-0.4-13] [X-10]", async () => {
  const lab = await attached();
  lab.plugins.script("tuning DEL", exited(0, "junk"));
  expect(await lab.del(web)).toMatchObject({ exitCode: 0, stdout: "" });
  expect(lab.plugins.log()).toEqual(everything);
});

test("del() returns several failures as one error that names each network", async () => {
  const lab = await attached();
  lab.plugins.script("macvlan DEL", failed(117, "parent busy"));
  lab.plugins.script("ptp DEL", failed(5, "lease locked"));
  const { json } = await lab.del(web);
  expectError({ json }, 102, /default-net.*locked.*default\/b.*busy/);
  expect(json.msg).not.toMatch(/not found|no such file/i);
});

test("del() fails if it cannot remove the record, so that the runtime tries again", async () => {
  const lab = await attached();
  lab.records.failFinish = new Error("read-only file system");
  expect((await lab.del(web)).json).toMatchObject({ code: 999, msg: "read-only file system" });
});

test("del() succeeds a second time, and then executes nothing [R-1.0-15] [R-0.4-03]", async () => {
  const lab = await attached();
  await lab.del(web);
  lab.plugins.calls.length = 0;
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual([]);
});

test("del() without a record runs only the current default network if no other interface exists", async () => {
  const lab = await attached();
  const env = { CNI_CONTAINERID: "from-before", CNI_NETNS: "/run/netns/before" };
  lab.kernel.addNamespace(env.CNI_NETNS);
  expect(await lab.del({ ...web, env })).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["ptp DEL eth0"]);
  expect(lab.plugins.calls[0]).toMatchObject({
    containerId: "from-before",
    netns: env.CNI_NETNS,
    searchPath: ["/opt/cni/bin"],
    conf: { name: "default-net" },
  });
  expect(lab.plugins.calls[0]?.env.CNI_ARGS).toContain("K8S_POD_NAME=web");
  expect(lab.source.asked).toEqual([]);
  expect(lab.records.keys).toEqual(["c1@eth0"]);
});

test("del() without a record ignores an invalid prevResult", async () => {
  const lab = new EngineLab();
  const prevResult = { cniVersion: "1.0.0", ips: [{ address: "not one" }] };
  expect(await lab.del({ conf: { prevResult } })).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.calls.map(({ conf }) => conf.prevResult)).toEqual([undefined]);
});

test("del() without a record succeeds with a warning if it finds no default network", async () => {
  const lab = new EngineLab({ conf: { clusterNetwork: "gone" } });
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual([]);
  expect(lab.logger.at("warn")).toEqual(["no record, and no default network to detach from"]);
});

test.each([
  { found: "ok", at: netns, given: netns },
  { found: "unknown", at: netns, given: netns },
  { found: "gone", at: netns, given: "" },
  { found: "own", at: netns, given: "" },
  { found: "own", at: netns, given: netns, CNI_NETNS_OVERRIDE: "1" },
  { found: "ok", at: "", given: "" },
])(
  "del() with a namespace that the shim finds to be '$found' at '$at' passes '$given' to delegates, without lookups [R-0.4-13] [R-0.3-17]",
  async ({ found, at, given, ...override }) => {
    const lab = await attached();
    const datagrams = lab.kernel.datagrams;
    const env = { CNI_NETNS: at, PLEXUS_NETNS: found, ...override };
    expect(await lab.del({ ...web, env })).toMatchObject({ exitCode: 0 });
    expect(new Set(lab.plugins.calls.map((call) => call.netns))).toEqual(new Set([given]));
    expect(lab.kernel.datagrams).toBe(datagrams);
    expect(lab.records.keys).toEqual([]);
  },
);

test("del() passes another path to delegates if nothing is at that of the ADD", async () => {
  const lab = await attached();
  const moved = "/run/netns/moved";
  const env = { CNI_NETNS: moved, PLEXUS_NETNS: "ok" };
  lab.kernel.addNamespace(moved);
  lab.kernel.removeNamespace(netns);
  expect(await lab.del({ ...web, env })).toMatchObject({ exitCode: 0 });
  expect(new Set(lab.plugins.calls.map((call) => call.netns))).toEqual(new Set([moved]));
  expect(lab.records.keys).toEqual([]);
});

test("del() searches plugins in the directories of the ADD first, then in those of the call", async () => {
  const lab = await attached();
  await lab.del({ ...web, env: { CNI_PATH: "/opt/moved:/opt/cni/bin" } });
  for (const { searchPath, env } of lab.plugins.calls) {
    expect(searchPath).toEqual(["/opt/cni/bin", "/opt/moved"]);
    expect(env.CNI_PATH).toBe("/opt/cni/bin:/opt/moved");
  }
});

test("del() records what it detached, so that only the rest remains if the shim disconnects", async () => {
  const lab = await attached();
  const host = lab.host();
  host.goesAt = 3;
  await expect(lab.del({ ...web, host })).rejects.toThrow("the shim has gone");
  expect(lab.records.keys).toEqual(["c1@eth0"]);
  const { record, plan } = lab.records.writes.at(-1)!;
  expect(record.attachments.map(({ ifName }) => ifName)).toEqual(["eth0", "net1"]);
  expect(record.teardown).toMatchObject({ attempts: 1 });
  expect(plan.steps.map(({ group, call }) => `${group} ${call.type}`)).toEqual([
    "1 bridge",
    "0 ptp",
  ]);
  expect(plan.attempted).toBe(2);
});

test("del() detaches the rest even if it cannot record its progress", async () => {
  const lab = await attached();
  lab.records.failWrite = { nth: lab.records.writes.length + 1, error: new Error("disk full") };
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(everything);
  expect(lab.records.keys).toEqual([]);
});

test.each([
  ["in the same boot skips a network", "same", []],
  ["after a reboot detaches a network", "another", ["macvlan DEL net2"]],
])("del() %s that was planned but not attempted", async (_, boot, further) => {
  const lab = podLab("a,b");
  lab.plugins.script("ptp ADD", () => {
    throw new HostGoneError("the shim has gone");
  });
  await expect(lab.add(web)).rejects.toThrow("the shim has gone");
  lab.plugins.calls.length = 0;
  if (boot === "another") lab.bootId = boot;
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual([...further, "bridge DEL net1", "ptp DEL eth0"]);
  expect(lab.records.keys).toEqual([]);
});

test.each(["recorded", "forgotten"])("del() of an old, %s one keeps the status", async (state) => {
  const lab = await attached();
  lab.kernel.addNamespace("/run/netns/new");
  const env = { CNI_CONTAINERID: "new", CNI_NETNS: "/run/netns/new" };
  expect(await lab.add({ ...web, env })).toMatchObject({ exitCode: 0 });
  if (state === "forgotten") await lab.records.remove({ containerId: "c1", ifName: "eth0" });
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.publisher.withdrawn).toEqual([]);
  await lab.del({ ...web, env });
  expect(lab.publisher.withdrawn).toEqual(["default/web"]);
});
