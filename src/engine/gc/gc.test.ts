import { describe, expect, test } from "vitest";
import type { TeardownPlan } from "#engine/record/teardown-plan.ts";
import { EngineLab, expectError, network, startedBefore } from "#engine/testing/engine-lab.ts";
import { ended, failed } from "#engine/testing/fake-plugins.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import type { JsonObject } from "#lib/json.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";

const eth0 = (containerId: string): { containerId: string; ifName: string } => ({
  containerId,
  ifName: "eth0",
});
const v110 = (name: string, ...types: string[]): JsonObject => ({
  ...network(name, ...types),
  cniVersion: "1.1.0",
});

/** Attaches the pod of this name, in a container of this name, to the network `a`. */
async function attach(
  lab: EngineLab,
  id: string,
  options: { conf?: JsonObject } = {},
): Promise<void> {
  lab.kernel.addNamespace(`/run/netns/${id}`);
  lab.source.addPod({ name: id, annotations: { [networksAnnotation]: "a" } });
  const env = { CNI_CONTAINERID: id, CNI_NETNS: `/run/netns/${id}` };
  expect(await lab.add({ pod: `default/${id}`, env, ...options })).toMatchObject({ exitCode: 0 });
}

/** Pods in the containers `c1`, `c2` …, each with the default network and the network `a`. */
async function pods(...containers: string[]): Promise<EngineLab> {
  const lab = new EngineLab({ conf: { delegates: [v110("default-net", "ptp")] } });
  lab.source.addNad("default/a", v110("net-a", "bridge", "tuning"));
  for (const id of containers) await attach(lab, id);
  lab.plugins.calls.length = 0;
  lab.source.asked.length = 0;
  return lab;
}

/** The valid attachments that GC passed to each plugin, as `container/interface`. */
function passedAsValid(lab: EngineLab): Record<string, string[]> {
  const calls = lab.plugins.calls.filter((call) => call.command === "GC");
  return Object.fromEntries(
    calls.map(({ type, conf }) => {
      const valid = conf["cni.dev/valid-attachments"] as { containerID: string; ifname: string }[];
      return [type, valid.map(({ containerID, ifname }) => `${containerID}/${ifname}`).sort()];
    }),
  );
}

test("gc() keeps every attachment of a listed container, and passes each network its own list [R-1.1-32] [R-1.1-30]", async () => {
  const lab = await pods("c1", "c2");
  expect(await lab.gc(["c1", "c2"])).toMatchObject({ exitCode: 0, stdout: "" });
  expect(passedAsValid(lab)).toEqual({
    ptp: ["c1/eth0", "c2/eth0"],
    bridge: ["c1/net1", "c2/net1"],
    tuning: ["c1/net1", "c2/net1"],
  });
  expect(lab.plugins.log("DEL")).toEqual([]);
  expect(lab.plugins.calls[0]?.env).toMatchObject({
    CNI_CONTAINERID: "",
    CNI_NETNS: "",
    CNI_IFNAME: "",
  });
});

test("gc() detaches unlisted containers after the plugins' GC, last attachment first, and removes their records [R-1.1-31]", async () => {
  const lab = await pods("c1", "c2");
  await lab.gc(["c2"]);
  expect(lab.plugins.log().slice(3)).toEqual([
    "tuning DEL net1",
    "bridge DEL net1",
    "ptp DEL eth0",
  ]);
  expect(lab.plugins.of("ptp", "DEL")[0]).toMatchObject({
    containerId: "c1",
    netns: "/run/netns/c1",
  });
  expect(lab.records.keys).toEqual(["c2@eth0"]);
  expect(passedAsValid(lab)).toMatchObject({ ptp: ["c2/eth0"], bridge: ["c2/net1"] });
});

test.each([
  ["null", null],
  ["empty", []],
])("gc() with a list that is %s detaches only what has no namespace", async (_, list) => {
  const lab = await pods("c1", "c2");
  lab.kernel.removeNamespace("/run/netns/c1");
  expect(await lab.gc(list)).toMatchObject({ exitCode: 0 });
  expect(lab.records.keys).toEqual(["c2@eth0"]);
  const valid = { ptp: ["c2/eth0"], bridge: ["c2/net1"], tuning: ["c2/net1"] };
  expect(passedAsValid(lab)).toEqual(valid);
});

/** A node with c1 attached by the list `one` and c2 by the list `two`, each to another default network, and to `net-a`. */
async function twoLists(): Promise<EngineLab> {
  const lab = new EngineLab();
  lab.source.addNad("default/a", v110("net-a", "bridge"));
  for (const list of ["one", "two"] as const) {
    await attach(lab, containerOf[list], { conf: confOf[list] });
  }
  lab.plugins.calls.length = 0;
  return lab;
}

const containerOf = { one: "c1", two: "c2" };
const confOf = {
  one: { name: "one", delegates: [v110("net-one", "ptp")] },
  two: { name: "two", delegates: [v110("net-two", "macvlan")] },
};
const main = { one: "ptp", two: "macvlan" };

/** Takes the names of lists out of the records, as earlier releases wrote them. */
function forgetListNames(lab: EngineLab): void {
  for (const { record } of lab.records.writes)
    lab.records.change(() => ({ listName: undefined as never }), record);
}

describe.each([
  { list: "one", other: "two" },
  { list: "two", other: "one" },
] as const)("gc() of the list $list beside the list $other", ({ list, other }) => {
  test.each([
    ["its own container is listed", [containerOf[list]]],
    ["no container is listed", []],
    ["a container without a record is listed", ["c9"]],
    ["only the other list's container is listed", [containerOf[other]]],
  ])("leaves the other list's sandbox attached: %s", async (_, listed) => {
    const lab = await twoLists();
    expect(await lab.gc(listed, { conf: confOf[list] })).toMatchObject({ exitCode: 0 });
    expect(lab.plugins.log("DEL")).toEqual([]);
    expect(lab.records.keys.sort()).toEqual(["c1@eth0", "c2@eth0"]);
    expect(await lab.engine.countLeftovers()).toBe(0);
    const others = listed.filter((id) => id !== containerOf[list]).map((id) => `${id}/eth0`);
    // The other list's own network is left to the GC of that list, which may be disabled.
    expect(passedAsValid(lab)).toEqual({
      [main[list]]: [`${containerOf[list]}/eth0`, ...others].sort(),
      bridge: ["c1/net1", "c2/net1"],
    });
  });

  test("detaches its own stale sandbox, and passes the other one to a plugin that both use", async () => {
    const lab = await twoLists();
    lab.kernel.removeNamespace(`/run/netns/${containerOf[list]}`);
    expect(await lab.gc([], { conf: confOf[list] })).toMatchObject({ exitCode: 0 });
    expect(lab.records.keys).toEqual([`${containerOf[other]}@eth0`]);
    expect(passedAsValid(lab)).toEqual({
      [main[list]]: [],
      bridge: [`${containerOf[other]}/net1`],
    });
  });

  test.each<[string, (lab: EngineLab) => void]>([
    ["of an earlier release", forgetListNames],
    ["that is damaged", ({ records }) => records.damage(eth0(containerOf[other]), "record")],
  ])(
    "detaches one with a record %s only if nothing is at its namespace's path",
    async (_, change) => {
      const lab = await twoLists();
      const netns = `/run/netns/${containerOf[other]}`;
      change(lab);
      const gc = () => lab.gc([containerOf[list]], { conf: confOf[list] });
      expect(await gc()).toMatchObject({ exitCode: 0 });
      lab.kernel.hideNamespace(netns);
      expect(await gc()).toMatchObject({ exitCode: 0 });
      expect(lab.plugins.log("DEL")).toEqual([]);
      // The list with a record of an earlier release may have the network of this one.
      const valid = [`${containerOf[list]}/eth0`];
      expect(passedAsValid(lab)[main[list]] ?? valid).toEqual(valid);
      lab.kernel.removeNamespace(netns);
      expect(await gc()).toMatchObject({ exitCode: 0 });
      expect(lab.records.keys).toEqual([`${containerOf[list]}@eth0`]);
    },
  );
});

test.each<[string, (lab: EngineLab) => unknown, string[]]>([
  [
    "whose namespace is mounted where the runtime does not see it",
    ({ kernel }) => kernel.hideNamespace("/run/netns/c1"),
    [],
  ],
  [
    "of cnitool that is the pod of a manifest, in the list of the pods that CRI-O lists",
    async (lab) => {
      const pod = "K8S_POD_NAMESPACE=default;K8S_POD_NAME=kept";
      const CNI_ARGS = `IgnoreUnknown=1;${pod};K8S_POD_INFRA_CONTAINER_ID=kept`;
      const env = { CNI_CONTAINERID: "kept", CNI_NETNS: "/run/netns/kept", CNI_ARGS };
      await lab.del({ env });
      expect(await lab.add({ env })).toMatchObject({ exitCode: 0 });
    },
    ["kept"],
  ],
  [
    "of which another one is attached while a stopped process collects",
    (lab) => {
      const { record, plan } = lab.records.writes.findLast(isOfKept)!;
      const list = lab.records.list.bind(lab.records);
      lab.records.list = () => {
        lab.records.put({ ...record, clockMs: record.clockMs + 60_000 }, plan);
        return list();
      };
    },
    [],
  ],
])("gc() leaves a sandbox attached %s", async (_, change, listed) => {
  const lab = await pods("c1", "kept");
  await change(lab);
  lab.plugins.calls.length = 0;
  await lab.gc(listed);
  expect(lab.plugins.log("DEL")).toEqual([]);
  expect(lab.records.keys.sort()).toEqual(["c1@eth0", "kept@eth0"]);
});

const isOfKept = ({ record }: { record: RecordKey }): boolean => record.containerId === "kept";

const container = { CNI_CONTAINERID: "c1", CNI_NETNS: "/run/netns/c1" };

test("gc() leaves the other list's sandbox recorded even if its namespace is gone", async () => {
  const lab = await twoLists();
  lab.kernel.removeNamespace("/run/netns/c2");
  expect(await lab.gc([], { conf: confOf.one })).toMatchObject({ exitCode: 0 });
  expect([lab.plugins.log("DEL"), lab.records.keys]).toEqual([[], ["c1@eth0", "c2@eth0"]]);
});

test("gc() keeps every attachment of a pod to one network", async () => {
  const lab = await pods();
  lab.kernel.addNamespace("/run/netns/c1");
  lab.source.addPod({ name: "c1", annotations: { [networksAnnotation]: "a,a" } });
  expect(await lab.add({ pod: "default/c1" })).toMatchObject({ exitCode: 0 });
  await lab.gc(["c1"]);
  expect(passedAsValid(lab)).toMatchObject({ bridge: ["c1/net1", "c1/net2"] });
});

test("gc() keeps listed attachments in an earlier default network that a newer pod requests", async () => {
  const lab = await pods("c1");
  lab.conf = { delegates: [v110("new-default", "ipvlan")] };
  lab.source.addNad("default/a", v110("default-net", "ptp"));
  await attach(lab, "c2");
  lab.plugins.calls.length = 0;
  await lab.gc(["c1", "c2", "before-plexus"]);
  expect(passedAsValid(lab).ptp).toContain("before-plexus/eth0");
});

test("gc() collects although Multus's file of a sandbox has just gone", async () => {
  const lab = await pods("c1");
  lab.multusFiles.containers = async () => ["gone"];
  expect(await lab.gc(["c1"])).toMatchObject({ exitCode: 0 });
  expect(passedAsValid(lab)).toMatchObject({ ptp: ["c1/eth0"] });
});

test.for<[string, string, JsonObject, string[]]>([
  ["keeps what another runtime attached to a network", "net-a", {}, ["c1/net1", "nerdctl/eth0"]],
  [
    "ignores the cache's file of another network",
    "net-a",
    { networkName: "net-a-two" },
    ["c1/net1"],
  ],
  ["ignores a result of an old libcni", "net-a", { containerId: 7 }, ["c1/net1"]],
])("gc() %s", async ([, name, change, valid]) => {
  const lab = await pods("c1");
  const add = { kind: "cniCacheV1", networkName: name, containerId: "nerdctl", ifName: "eth0" };
  lab.multusFiles.cached.set(`${name}-nerdctl-eth0`, JSON.stringify({ ...add, ...change }));
  expect(await lab.gc(["c1"])).toMatchObject({ exitCode: 0 });
  expect(passedAsValid(lab)).toMatchObject({ bridge: valid, ptp: ["c1/eth0"] });
});

test("gc() ignores what libcni's cache has of the runtime's own list, whose attachments it lists", async () => {
  const lab = new EngineLab({ conf: { name: "main", delegates: [v110("main", "ptp")] } });
  const cached = { networkName: "main", containerId: "gone", ifName: "eth0" };
  lab.multusFiles.cached.set("main-gone-eth0", JSON.stringify(cached));
  await lab.gc(["c1"]);
  expect(passedAsValid(lab)).toEqual({ ptp: ["c1/eth0"] });
});

test("gc() collects nothing if libcni's cache of a network cannot be read", async () => {
  const lab = await pods("c1");
  lab.multusFiles.cached.set("net-a-nerdctl-eth0", "{");
  expect(await lab.gc(["c1"])).toMatchObject({ exitCode: 0 });
  expect(passedAsValid(lab)).toEqual({});
  expect(lab.logger.at("warn")).toEqual([
    "cannot use libcni's cache of a network: nothing is collected",
  ]);
});

test("gc() does not collect a network that another list has as its default network", async () => {
  const lab = await twoLists();
  lab.source.addNad("default/a", v110("net-two", "macvlan"));
  await attach(lab, "c3", { conf: confOf.one });
  lab.plugins.calls.length = 0;
  await lab.gc(["c1", "c3"], { conf: confOf.one });
  expect(Object.keys(passedAsValid(lab)).sort()).toEqual(["bridge", "ptp"]);
});

const cluster = v110("cluster", "ptp");
const front = v110("front", "macvlan");

test.each<[string, JsonObject, Record<string, string[]>]>([
  ["that list", { name: "cluster" }, { ptp: ["before-plexus/eth0", "c1/eth0"] }],
  ["a list without a default network", { name: "nerdctl" }, {}],
  [
    "a list with another one",
    { name: "nerdctl", delegates: [front] },
    { macvlan: ["before-plexus/eth0"] },
  ],
  ["a list that names the same one", { name: "nerdctl", delegates: [cluster] }, {}],
])("gc() collects plexusd's default network only in its list: %s", async (_, conf, valid) => {
  for (const config of [{ delegates: [cluster] }, { clusterNetwork: "cluster" }]) {
    const lab = new EngineLab({ conf: { name: "cluster" }, config });
    lab.source.addNad("kube-system/cluster", cluster);
    expect(await lab.add()).toMatchObject({ exitCode: 0 });
    expect(await lab.gc(["before-plexus"], { conf })).toMatchObject({ exitCode: 0 });
    expect(passedAsValid(lab)).toEqual(valid);
  }
});

test("gc() collects nothing while the cluster's default network, which a list may share, is unknown", async () => {
  const lab = new EngineLab({ conf: { name: "nerdctl", delegates: [front] } });
  lab.config = { clusterNetwork: "cluster" };
  expect(await lab.gc([])).toMatchObject({ exitCode: 0 });
  expect(passedAsValid(lab)).toEqual({});
  expect(lab.logger.lines.at(-2)?.message).toContain("nothing is collected");
});

test.each([
  ["cluster", { ptp: ["before-plexus/eth0", "c1/eth0", "c2/eth0"] }],
  ["nerdctl", {}],
])("gc() collects a default network of two lists in that of its name: %s", async (name, valid) => {
  const lab = new EngineLab({ conf: { delegates: [cluster] } });
  for (const [id, list] of [
    ["c1", "cluster"],
    ["c2", "nerdctl"],
  ] as const) {
    lab.kernel.addNamespace(`/run/netns/${id}`);
    const env = { CNI_CONTAINERID: id, CNI_NETNS: `/run/netns/${id}` };
    expect(await lab.add({ env, conf: { name: list } })).toMatchObject({ exitCode: 0 });
  }
  expect(await lab.gc(["before-plexus"], { conf: { name } })).toMatchObject({ exitCode: 0 });
  expect(passedAsValid(lab)).toEqual(valid);
});

test.each<[string, (lab: EngineLab) => void]>([
  ["recorded", () => undefined],
  ["whose record is damaged", ({ otherRecords }) => otherRecords.damage(eth0("c9"), "record")],
])("gc() keeps the attachments of another engine, %s, and detaches none", async (_, change) => {
  const lab = await pods("c1");
  const { record, plan } = lab.records.writes.at(-1)!;
  const steps = plan.steps.map((step) => inContainer(step, "c9"));
  lab.otherRecords.put({ ...record, containerId: "c9", netns: "/gone" }, { ...plan, steps });
  change(lab);
  expect(await lab.gc(["c1"])).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log("DEL")).toEqual([]);
  expect(passedAsValid(lab)).toEqual({
    ptp: ["c1/eth0", "c9/eth0"],
    bridge: ["c1/net1", "c9/net1"],
    tuning: ["c1/net1", "c9/net1"],
  });
});

test("gc() collects nothing if the attachments of another engine are unknown", async () => {
  const lab = await pods("c1");
  const { record, plan } = lab.records.writes.at(-1)!;
  lab.otherRecords.put({ ...record, containerId: "c9" }, plan);
  lab.otherRecords.damage(eth0("c9"), "both");
  expect(await lab.gc(["c1"])).toMatchObject({ exitCode: 1 });
  expect(lab.plugins.log()).toEqual([]);
});

test("gc() without a list detaches nothing and skips default networks, which pods older than Plexus may use", async () => {
  const lab = await pods("c1");
  lab.kernel.removeNamespace("/run/netns/c1");
  expect(await lab.gc(undefined)).toMatchObject({ exitCode: 0 });
  expect([lab.plugins.log("DEL"), lab.records.keys]).toEqual([[], ["c1@eth0"]]);
  expect(passedAsValid(lab)).toEqual({ bridge: ["c1/net1"], tuning: ["c1/net1"] });
});

test("gc() keeps listed attachments without a record in the current and every recorded default network", async () => {
  const lab = await pods("c1");
  lab.conf = { delegates: [v110("new-default", "ipvlan")] };
  await lab.gc(["c1", "before-plexus"]);
  expect(passedAsValid(lab)).toEqual({
    ptp: ["before-plexus/eth0", "c1/eth0"],
    ipvlan: ["before-plexus/eth0", "c1/eth0"],
    bridge: ["c1/net1"],
    tuning: ["c1/net1"],
  });
});

test("gc() uses the newest configuration of a network", async () => {
  const lab = await pods("c1");
  lab.source.addNad("default/a", v110("net-a", "macvlan"));
  await attach(lab, "c2");
  await lab.gc(["c1", "c2"]);
  expect(passedAsValid(lab)).toEqual({
    ptp: ["c1/eth0", "c2/eth0"],
    macvlan: ["c1/net1", "c2/net1"],
  });
});

test("gc() skips networks with disableGC and those below 1.1.0, but detaches their stale attachments [R-1.1-03]", async () => {
  const lab = await pods();
  lab.source.addNad("default/a", { ...v110("net-a", "bridge"), disableGC: true });
  lab.conf = { delegates: [network("default-net", "ptp")] };
  lab.kernel.addNamespace("/run/netns/c1");
  lab.source.addPod({ name: "c1", annotations: { [networksAnnotation]: "a" } });
  await lab.add({ pod: "default/c1" });
  lab.kernel.removeNamespace("/run/netns/c1");
  lab.plugins.calls.length = 0;
  expect(await lab.gc([])).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["bridge DEL net1", "ptp DEL eth0"]);
});

test("gc() continues after failures and returns all of them; what failed stays recorded [R-1.1-34] [R-1.1-31]", async () => {
  const lab = await pods("c1", "c2", "c3");
  lab.plugins.script("bridge DEL", (call) =>
    call.containerId === "c1" ? failed(5, "c1 busy") : undefined,
  );
  lab.plugins.script("bridge GC", failed(130, "no bridge"));
  const { json } = await lab.gc(["c3"]);
  expectError({ json }, 102, /2 errors: .*no bridge.*c1 busy/);
  expect(lab.records.keys).toEqual(["c1@eth0", "c3@eth0"]);
  expect(Object.keys(passedAsValid(lab)).sort()).toEqual(["bridge", "ptp", "tuning"]);
});

test("gc() reports a default network that it cannot find, and runs GC in the others", async () => {
  const lab = await pods("c1");
  lab.conf = { clusterNetwork: "gone" };
  expectError(await lab.gc(["c1"]), 7, "gone");
  expect(passedAsValid(lab)).toMatchObject({ bridge: ["c1/net1"], ptp: ["c1/eth0"] });
});

test.each<[string, string, ((lab: EngineLab) => void)?]>([
  ["of a process, whose PID may have been reused", "/proc/4711/ns/net"],
  [
    "that the record says is a process's",
    "/run/netns/c1",
    ({ records }) => records.change(() => ({ netnsProcess: "7-net:[1]" })),
  ],
  ["that is gone", "/run/netns/c1", ({ kernel }) => kernel.removeNamespace("/run/netns/c1")],
  [
    "that another container has since a reboot",
    "/run/netns/c1",
    (lab) => {
      lab.bootId = "another";
      lab.kernel.addNamespace("/run/netns/c1");
      lab.kernel.addLink("/run/netns/c1", "other");
      lab.kernel.addLink("/run/netns/c1", "eth0");
    },
  ],
])("gc() passes delegates no namespace %s", async (_, netns, change) => {
  const lab = await pods("kept");
  lab.kernel.addNamespace(netns);
  lab.source.addPod({ name: "c1" });
  const env = { CNI_CONTAINERID: "c1", CNI_NETNS: netns };
  await lab.add({ pod: "default/c1", env });
  change?.(lab);
  await lab.gc(["kept"]);
  expect(lab.plugins.of("ptp", "DEL").map((call) => call.netns)).toEqual([""]);
});

test("gc() passes delegates the namespace of a sandbox that a process with another boot ID attached", async () => {
  const lab = await pods("c1", "kept");
  lab.bootId = "another";
  await lab.gc(["kept"]);
  expect(lab.plugins.of("ptp", "DEL").map((call) => call.netns)).toEqual(["/run/netns/c1"]);
});

type Step = TeardownPlan["steps"][number];

function inContainer({ call, ...step }: Step, CNI_CONTAINERID: string): Step {
  return { ...step, call: { ...call, env: { ...call.env, CNI_CONTAINERID } } };
}

/** Has a plugin hang until it is killed. */
function hang(lab: EngineLab, which: string): void {
  lab.plugins.script(which, ({ timeoutMs }) => {
    lab.advance(timeoutMs);
    return ended("timeout");
  });
}

test("gc() detaches stale sandboxes for at most five seconds, and reports how many remain as leftovers", async () => {
  const lab = await pods("c1", "c2", "c3", "kept");
  hang(lab, "bridge DEL");
  const { json } = await lab.gc(["kept"]);
  expectError({ json }, 102, /timed out.*; 2 stale sandboxes were not reached in 5 s/);
  const timeouts = lab.plugins.of("bridge", "DEL").map(({ timeoutMs }) => timeoutMs);
  expect(timeouts.map((ms) => Math.ceil(ms / 1000))).toEqual([5]);
  expect(await lab.engine.countLeftovers()).toBe(3);
});

test("gc() gives each plugin's GC five seconds and all together ten, and reports those that did not run", async () => {
  const lab = await pods("c1");
  lab.advance(60_000);
  for (const type of ["ptp", "bridge", "tuning"]) hang(lab, `${type} GC`);
  const { json } = await lab.gc(["c1"]);
  expect(lab.plugins.calls.map(({ timeoutMs }) => Math.ceil(timeoutMs / 1000))).toEqual([5, 5]);
  expect(json).toMatchObject({ code: 102, msg: expect.stringContaining("is used up") });
});

test("gc() gives plugins less time if it has waited for other operations", async () => {
  const lab = await pods("c1");
  const release = Promise.withResolvers<void>();
  lab.plugins.script("ptp CHECK", async () => void (await release.promise));
  const other = lab.check({ pod: "default/c1", env: container });
  await new Promise(setImmediate);
  lab.plugins.calls.length = 0;
  for (const type of ["ptp", "bridge", "tuning"]) hang(lab, `${type} GC`);
  const gc = lab.gc(["c1"]);
  await new Promise(setImmediate);
  lab.advance(3000);
  release.resolve();
  await Promise.all([other, gc]);
  const calls = lab.plugins.calls.filter(({ command }) => command === "GC");
  expect(calls.map(({ timeoutMs }) => Math.ceil(timeoutMs / 1000))).toEqual([5, 2]);
});

test("gc() lets other pods start while it detaches a stale sandbox, but not while plugins run GC", async () => {
  const lab = await pods("c1", "kept");
  const add = (id: string): Promise<unknown> => {
    lab.kernel.addNamespace(`/run/netns/${id}`);
    lab.source.addPod({ name: id });
    const env = { CNI_CONTAINERID: id, CNI_NETNS: `/run/netns/${id}` };
    return lab.add({ pod: `default/${id}`, env });
  };
  let early: Promise<unknown> = Promise.resolve();
  const adds: number[] = [];
  lab.plugins.script("bridge GC", async () => {
    early = add("c2");
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
    adds.push(lab.plugins.of("ptp", "ADD").length);
    return undefined;
  });
  lab.plugins.script("bridge DEL", async () => {
    expect(await add("c3")).toMatchObject({ exitCode: 0 });
    await early;
    adds.push(lab.plugins.of("ptp", "ADD").length);
    return undefined;
  });
  expect(await lab.gc(["kept"])).toMatchObject({ exitCode: 0 });
  expect(adds).toEqual([0, 2]);
  expect(lab.records.keys.sort()).toEqual(["c2@eth0", "c3@eth0", "kept@eth0"]);
});

test("gc() leaves a stale sandbox to another GC that is still running, as after the end of its shim", async () => {
  const lab = await pods("c1", "c2", "kept");
  lab.records.damage(eth0("c2"), "record");
  lab.kernel.removeNamespace("/run/netns/c2");
  const both = await Promise.all([lab.gc(["kept"]), lab.gc(["kept"])]);
  expect(both.map(({ exitCode }) => exitCode)).toEqual([0, 0]);
  expect(lab.plugins.log("DEL")).toHaveLength(6);
  expect(lab.records.keys).toEqual(["kept@eth0"]);
});

test.each<[string, (lab: EngineLab) => Promise<void>, string[]]>([
  ["has detached", ({ records }) => records.remove(eth0("c1")), ["kept@eth0"]],
  [
    "has replaced",
    async ({ records }) => records.change(() => ({ createdAt: "later" }), eth0("c1")),
    ["c1@eth0", "kept@eth0"],
  ],
])("gc() skips a stale sandbox that another process %s meanwhile", async (_, change, keys) => {
  const lab = await pods("c1", "kept");
  lab.plugins.script("bridge GC", async () => {
    await change(lab);
    return undefined;
  });
  expect(await lab.gc(["kept"])).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log("DEL")).toEqual([]);
  expect(lab.records.keys.sort()).toEqual(keys);
});

test("gc() keeps the count of a leftover's failures", async () => {
  const lab = await pods("c1", "kept");
  lab.plugins.script("bridge DEL", failed(5, "busy"));
  await lab.del({ env: container, pod: "default/c1" });
  expect((await lab.gc(["kept"])).json).toMatchObject({ code: 5 });
  expect(lab.records.writes.at(-1)?.record.teardown).toMatchObject({ attempts: 2 });
});

test("gc() detaches a stale sandbox although it cannot be marked", async () => {
  const lab = await pods("c1", "kept");
  lab.records.failWrite = { nth: lab.records.writeCount + 1, error: new Error("disk full") };
  expect(await lab.gc(["kept"])).toMatchObject({ exitCode: 0 });
  expect(lab.logger.at("warn")).toContain("cannot mark a leftover");
  expect(lab.records.keys).toEqual(["kept@eth0"]);
});

test("gc() marks nothing if the shim disconnects while the records are listed", async () => {
  const lab = await pods("c1", "kept");
  const host = lab.host();
  host.goesAt = 0;
  const list = lab.records.list.bind(lab.records);
  lab.records.list = async () => {
    await host.find([], []).catch(() => undefined);
    return list();
  };
  await expect(lab.gc(["kept"], { host })).rejects.toThrow("the shim has gone");
  expect(lab.records.writes.at(-1)?.record.teardown).toBeUndefined();
});

test("gc() stops if the shim disconnects", async () => {
  const lab = await pods("c1");
  const host = lab.host();
  host.goesAt = 2;
  await expect(lab.gc([], { host })).rejects.toThrow("the shim has gone");
  expect(lab.records.keys).toEqual(["c1@eth0"]);
});

/** A GC that the engine gets 90 s after the sandbox was attached. */
interface Since {
  /** How long before the engine gets the call its shim has started. */
  readonly waitedMs?: number;
  /** By how much the date was set meanwhile. */
  readonly steppedMs?: number;
  /** The boot ID that the engine reads now. */
  readonly bootId?: string;
  readonly busy?: string;
}

test.each<[string, Since, isKept: boolean]>([
  ["keeps what was attached since its shim started", { waitedMs: 120_000 }, true],
  ["keeps it if the date was set back", { waitedMs: 120_000, steppedMs: -3600_000 }, true],
  ["keeps it if the date was set forward", { waitedMs: 120_000, steppedMs: 3600_000 }, true],
  ["detaches what was attached before", { waitedMs: 60_000 }, false],
  ["detaches it if the date was set back", { waitedMs: 60_000, steppedMs: -3600_000 }, false],
  ["detaches it if the date was set forward", { waitedMs: 60_000, steppedMs: 3600_000 }, false],
  ["takes no clock of another boot", { waitedMs: 120_000, bootId: "another" }, false],
  ["keeps what an ADD attached that ran then", { waitedMs: 10, busy: "c2/c9/" }, true],
  ["detaches if the start is unknown", {}, false],
])("gc() %s", async (_, since, isKept) => {
  const { waitedMs, steppedMs = 0, bootId, busy } = since;
  const lab = await pods("c1", "c2");
  lab.advance(90_000);
  lab.stepClock(steppedMs);
  if (bootId !== undefined) lab.bootId = bootId;
  const env = {
    ...(waitedMs && startedBefore(lab, waitedMs)),
    ...(busy && { PLEXUS_BUSY: busy }),
  };
  expect(await lab.gc(["c1"], { env })).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log("DEL")).toHaveLength(isKept ? 0 : 3);
  const kept = isKept ? ["c1/net1", "c2/net1"] : ["c1/net1"];
  expect(passedAsValid(lab)).toMatchObject({ bridge: kept });
});

test("gc() keeps a sandbox whose record was damaged by the operation that ran when it began", async () => {
  const lab = await pods("c1", "c2");
  lab.kernel.removeNamespace("/run/netns/c2");
  lab.records.damage(eth0("c2"), "record");
  await lab.gc(["c1"], { env: { PLEXUS_BUSY: "c2/" } });
  expect(lab.records.keys).toEqual(["c1@eth0", "c2@eth0"]);
});

test("gc() detaches a stale sandbox by its teardown plan when its record is damaged", async () => {
  const lab = await pods("c1", "c2");
  lab.records.damage(eth0("c1"), "record");
  lab.kernel.removeNamespace("/run/netns/c1");
  expect(await lab.gc(["c2"])).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log("DEL")).toHaveLength(3);
  expect(lab.records.keys).toEqual(["c2@eth0"]);
  expect(passedAsValid(lab)).toMatchObject({ bridge: ["c2/net1"], ptp: ["c2/eth0"] });
});

test("gc() removes a damaged record whose teardown plan is empty", async () => {
  const lab = await pods("c1", "kept");
  const { record, plan } = lab.records.writes.find((each) => each.record.containerId === "c1")!;
  lab.records.put(record, { ...plan, steps: [] });
  lab.records.damage(eth0("c1"), "record");
  expect(await lab.gc(["kept"])).toMatchObject({ exitCode: 0 });
  expect(lab.records.keys).toEqual(["kept@eth0"]);
});

test("gc() keeps the attachments of a running container whose record is damaged, as its teardown plan names them", async () => {
  const lab = await pods("c1", "c2");
  lab.records.damage(eth0("c1"), "record");
  expect(await lab.gc(["c1", "c2"])).toMatchObject({ exitCode: 0 });
  expect(passedAsValid(lab)).toMatchObject({
    bridge: ["c1/net1", "c2/net1"],
    ptp: ["c1/eth0", "c2/eth0"],
  });
  expect(lab.records.keys).toEqual(["c1@eth0", "c2@eth0"]);
});

test.each([
  ["is listed", ["c1", "c2"]],
  ["is not", ["c2"]],
])("gc() runs no plugin if attachments are not known, and %s", async (_, listed) => {
  const lab = await pods("c1", "c2", "c3");
  lab.records.damage(eth0("c1"), "both");
  const { json } = await lab.gc(listed);
  expect(json).toMatchObject({ code: 6, msg: expect.stringContaining("c1@eth0") });
  expect(passedAsValid(lab)).toEqual({});
  expect(lab.records.keys).toEqual(["c1@eth0", "c2@eth0"]);
});

test("gc() collects a network that is above the limits of an ADD", async () => {
  const lab = await pods("c1");
  const { record, plan } = lab.records.writes.at(-1)!;
  const [first, second] = record.attachments;
  const conf = v110("net-a", ...Array.from({ length: 40 }, () => "bridge"));
  lab.records.put({ ...record, attachments: [first!, { ...second!, conf }] }, plan);
  expect(await lab.gc(["c1"])).toMatchObject({ exitCode: 0 });
  expect(passedAsValid(lab)).toMatchObject({ bridge: ["c1/net1"] });
});

test("gc() runs no plugin if a running container's recorded configuration is invalid", async () => {
  const lab = await pods("c1");
  const { record, plan } = lab.records.writes.at(-1)!;
  const [first, ...others] = record.attachments;
  const attachments = [{ ...first!, conf: { name: "default-net" } }, ...others];
  lab.records.put({ ...record, attachments }, plan);
  expect((await lab.gc(["c1"])).json).toMatchObject({ code: 7 });
  expect(passedAsValid(lab)).toEqual({});
});
