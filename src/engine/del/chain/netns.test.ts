import { expect, test } from "vitest";
import { EngineLab, netns, network, sandbox } from "#engine/testing/engine-lab.ts";
import { exited, failed, interfaceResult } from "#engine/testing/fake-plugins.ts";
import { podLab, web } from "#engine/testing/pod-lab.ts";

const path = "/proc/7/ns/net";

/** What the shim says of the path: `mounted`, or which process's namespace it is. */
type Found = "mounted" | { readonly process: string };

function environment(found: Found, CNI_NETNS = path): Record<string, string> {
  const process = found === "mounted" ? {} : { PLEXUS_NETNS_PROCESS: found.process };
  return { CNI_NETNS, PLEXUS_NETNS: "ok", ...process };
}

const one: Found = { process: "100-net:[4026532001]" };
const another: Found = { process: "200-net:[4026532001]" };
const unknown: Found = { process: "" };
const link = "/run/netns/web";

/** An ADD and a DEL of the same container; `ran` is the namespace that the DEL's plugin gets. */
test.each<{
  added: Found;
  from?: string;
  deleted: Found;
  at?: string;
  record?: "no";
  ran: string;
}>([
  { added: one, deleted: one, ran: path },
  { added: one, deleted: another, ran: "" },
  { added: unknown, deleted: unknown, ran: "" },
  { added: one, deleted: one, at: "/proc/7/task/8/ns/net", ran: "/proc/7/task/8/ns/net" },
  { added: one, deleted: another, at: "/proc/7/task/8/ns/net", ran: "" },
  { added: one, deleted: one, record: "no", ran: "" },
  // As records of earlier releases, which do not say which process it was.
  { added: "mounted", deleted: one, ran: "" },
  { added: "mounted", deleted: "mounted", at: netns, ran: netns },
  // A link, as people make it for Docker's containers.
  { added: one, from: link, deleted: one, at: link, ran: link },
  { added: one, from: link, deleted: another, at: link, ran: "" },
  { added: one, from: link, deleted: "mounted", at: link, ran: "" },
])("del() in namespace of $deleted, after an ADD in that of $added, passes $ran", async (scene) => {
  const { added, deleted, at = path, from = at === netns ? netns : path, record, ran } = scene;
  const lab = new EngineLab({ conf: { delegates: [network("default-net", "ptp")] } });
  for (const each of [path, at, from]) lab.kernel.addNamespace(each);
  expect(await lab.add({ env: environment(added, from) })).toMatchObject({ exitCode: 0 });
  if (record === "no") {
    const key = { containerId: "c1", ifName: "eth0" };
    lab.records.damage(key, "both");
    await lab.records.quarantine(key);
  }
  expect(await lab.del({ env: environment(deleted, at) })).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.of("ptp", "DEL").map((call) => call.netns)).toEqual([ran]);
});

const first = { CNI_CONTAINERID: "first", CNI_NETNS: link };
const uuid = "/run/netns/cni-0b6bb8b5-4d5a-4c5e-9a64-7d3b0a1c2e3f";
const alias = "/var/run//netns/web";

/** What the runtime calls before a DEL in whose namespace the sandbox `second` may run. */
test.each<{
  what: string;
  before: readonly string[];
  del?: { CNI_NETNS?: string; CNI_IFNAME?: string };
  at?: string;
  /** The path of the other sandbox. @default that of this one */
  second?: string;
  ran: string;
}>([
  { what: "a DEL that failed is repeated", before: ["ADD", "failing DEL"], ran: "" },
  { what: "the container is unknown", before: [], ran: "" },
  { what: "it names another sandbox's path", before: ["ADD elsewhere"], ran: "" },
  { what: "that is made once", before: ["ADD elsewhere"], at: uuid, ran: "" },
  {
    what: "the container is unknown, and it spells the path otherwise",
    ...{ before: [], del: { CNI_NETNS: alias }, ran: "" },
  },
  {
    what: "a DEL that failed is repeated with another spelling of the path",
    ...{ before: ["ADD", "failing DEL"], del: { CNI_NETNS: alias }, ran: "" },
  },
  {
    what: "the other sandbox has another spelling of the path",
    ...{ before: ["ADD", "failing DEL"], second: alias, ran: "" },
  },
  {
    what: "the other sandbox has another spelling of a path that is made once",
    ...{ before: ["ADD elsewhere"], at: uuid, second: alias, ran: "" },
  },
  {
    what: "the interfaces have other names, and it spells the path otherwise",
    ...{ before: ["ADD"], del: { CNI_NETNS: alias, CNI_IFNAME: "eth9" }, ran: alias },
  },
  {
    what: "the interfaces have other names",
    ...{ before: [], del: { CNI_IFNAME: "eth9" }, ran: first.CNI_NETNS },
  },
  { what: "the path is made once", before: ["ADD", "failing DEL"], at: uuid, ran: uuid },
])("the DEL of a sandbox passes $ran if $what", async ({ before, del, at, second, ran }) => {
  const env = { ...first, CNI_NETNS: at ?? first.CNI_NETNS };
  const lab = new EngineLab({ conf: { delegates: [network("default-net", "ptp")] } });
  for (const each of [env.CNI_NETNS, netns]) lab.kernel.addNamespace(each);
  lab.kernel.linkNamespace(env.CNI_NETNS, alias);
  for (const call of before) {
    const command = call.split(" ").find((word) => /^[A-Z]+$/.test(word)) ?? "";
    const where = call === "ADD elsewhere" ? { CNI_NETNS: netns } : {};
    if (call === "failing DEL") lab.plugins.script("ptp DEL", failed(11, "busy"));
    await lab.call(command, { env: { ...env, ...where } });
    lab.plugins.unscript("ptp DEL");
  }
  for (const each of [env.CNI_NETNS, netns]) lab.kernel.removeLink(each, "eth0");
  const another = { CNI_CONTAINERID: "second", CNI_NETNS: second ?? env.CNI_NETNS };
  expect(await lab.add({ env: another })).toMatchObject({ exitCode: 0 });
  lab.plugins.calls.length = 0;
  expect(await lab.del({ env: { ...env, ...del } })).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.of("ptp", "DEL").map((call) => call.netns)).toEqual([ran]);
});

test("a DEL passes its path beside no other sandbox, however it spells that", async () => {
  const lab = new EngineLab({ conf: { delegates: [network("default-net", "ptp")] } });
  lab.kernel.addNamespace(link);
  lab.kernel.linkNamespace(link, alias);
  expect(await lab.add({ env: { CNI_NETNS: link } })).toMatchObject({ exitCode: 0 });
  expect(await lab.del({ env: { CNI_NETNS: alias } })).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.of("ptp", "DEL").map((call) => call.netns)).toEqual([alias]);
});

/** Two sandboxes that were attached at one path. One of them may be a pod, which has `net1`, too. */
test.each<{
  what: string;
  pod?: string;
  as?: string;
  isLater?: true;
  isOver?: true;
  /** What its record is by the time of the DEL. */
  record?: "damaged" | "of the present boot";
  passes: string;
}>([
  { what: "was attached earlier", passes: link },
  { what: "was attached earlier, and has further interfaces", pod: "second", passes: link },
  { what: "is attached later", isLater: true, passes: "" },
  {
    what: "is attached later, and has further interfaces",
    pod: "second",
    isLater: true,
    passes: "",
  },
  {
    what: "is attached later, with a further interface of it",
    ...{ pod: "first", as: "net1", isLater: true, passes: "" },
  },
  { what: "is attached later, but its DEL has begun", isLater: true, isOver: true, passes: link },
  { what: "has a damaged record", record: "damaged", passes: "" },
  {
    what: "has the present boot ID, although clock and date say earlier, as after a reboot with a wrong date",
    ...{ record: "of the present boot", passes: "" },
  },
])("a DEL passes '$passes' beside a sandbox that $what", async (scene) => {
  const { pod, as = "eth0", isLater = false, isOver = false, record, passes } = scene;
  const lab = podLab("a");
  lab.kernel.addNamespace(link);
  const callOf = (CNI_CONTAINERID: string, CNI_IFNAME: string) => ({
    env: { CNI_CONTAINERID, CNI_NETNS: link, CNI_IFNAME },
    ...(pod === CNI_CONTAINERID && web),
  });
  const [own, second] = [callOf("first", "eth0"), callOf("second", as)];
  lab.plugins.script("ptp DEL", failed(11, "busy"));
  for (const call of isLater ? [own, second] : [second, own]) {
    expect(await lab.add(call)).toMatchObject({ exitCode: 0 });
    for (const name of ["eth0", "net1"]) lab.kernel.removeLink(link, name);
    lab.advance(1000);
  }
  if (isOver) expect(await lab.del(second)).toMatchObject({ exitCode: 1 });
  lab.plugins.unscript("ptp DEL");
  if (record === "damaged") lab.records.damage({ containerId: "second", ifName: as }, "record");
  if (record === "of the present boot") {
    const key = { containerId: "first", ifName: "eth0" };
    lab.records.change(() => ({ bootId: "of-an-earlier-boot" }), key);
  }
  lab.plugins.calls.length = 0;
  expect(await lab.del(own)).toMatchObject({ exitCode: 0 });
  expect(new Set(lab.plugins.calls.map((call) => call.netns))).toEqual(new Set([passes]));
});

/** A sandbox whose DEL failed, and what is at the path of its namespace when that is repeated. */
interface Reuse {
  readonly what: string;
  /** The MAC address in the results; "" = none. */
  readonly recorded: string;
  /** The MAC address of `eth0` at the path; absent = there is none. */
  readonly there?: string;
  /** Whether another sandbox has been attached at the path. */
  readonly isReused?: true;
  /** Whether its record is newer than that one's: plexusd, which had been stopped, began its ADD late. */
  readonly isLate?: true;
  /** The name of what is there. @default `eth0` */
  readonly as?: string;
  /** @default it may be made again */
  readonly at?: string;
  readonly ran: string;
}

const mac = "02:00:00:00:00:0a";
const other = "02:00:00:00:00:0b";

test.each<Reuse>([
  {
    what: "another sandbox is attached at its path",
    recorded: mac,
    there: other,
    isReused: true,
    ran: "",
  },
  {
    what: "their addresses are the same, as of ipvlan",
    recorded: mac,
    there: mac,
    isReused: true,
    ran: "",
  },
  { what: "their addresses are not known", recorded: "", there: mac, isReused: true, ran: "" },
  {
    what: "its record is newer, and its address is not known",
    recorded: "",
    there: mac,
    isReused: true,
    isLate: true,
    ran: "",
  },
  { what: "its interface is there", recorded: mac.toUpperCase(), there: mac, ran: netns },
  { what: "an interface with another address is there", recorded: mac, there: other, ran: "" },
  { what: "its interface is not there", recorded: mac, ran: "" },
  { what: "its address is not known", recorded: "", there: mac, ran: "" },
  {
    what: "its address is not known, and its path is made once",
    ...{ recorded: "", there: mac, at: uuid, ran: uuid },
  },
  { what: "another interface has its address", recorded: mac, there: mac, as: "eth9", ran: "" },
])("a leftover is detached in namespace '$ran' if $what", async (scene) => {
  const { recorded, there, isReused, isLate, as = "eth0", at = netns, ran } = scene;
  const conf = { delegates: [network("default-net", "ptp")] };
  const lab = new EngineLab({ conf, leftoverDuty: "daemon", uptimeMs: 3_600_000 });
  lab.plugins.script("ptp ADD", (call) => {
    lab.plugins.work(call);
    return exited(0, interfaceResult(call, "10.0.0.1/24", recorded));
  });
  const env = { CNI_NETNS: at };
  lab.kernel.addNamespace(at);
  expect(await lab.add({ env })).toMatchObject({ exitCode: 0 });
  lab.plugins.script("ptp DEL", failed(11, "busy"));
  expect(await lab.del({ env })).toMatchObject({ exitCode: 1 });
  lab.plugins.unscript("ptp DEL");
  lab.kernel.addNamespace(at);
  const second = { env: { ...env, CNI_CONTAINERID: "c2" } };
  if (isReused) expect(await lab.add(second)).toMatchObject({ exitCode: 0 });
  else if (there !== undefined) lab.kernel.addLink(at, as);
  if (isLate)
    lab.records.change(({ clockMs }) => {
      return { createdAt: "2030-01-01T00:00:00.000Z", clockMs: clockMs + 60_000 };
    }, sandbox);
  lab.kernel.setMac(at, as, there ?? "");
  lab.plugins.calls.length = 0;
  lab.advance(700_000);
  expect(await lab.status()).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.of("ptp", "DEL").map((call) => call.netns)).toEqual([ran]);
  expect(lab.records.keys).toEqual(isReused ? ["c2@eth0"] : []);
  if (isReused) expect(lab.kernel.linkNames(at)).toEqual(["eth0"]);
});

test("a leftover of two networks is detached in the namespace that has one of its interfaces", async () => {
  const lab = podLab("a", undefined, { leftoverDuty: "daemon", uptimeMs: 3_600_000 });
  lab.kernel.addNamespace(link);
  const call = { ...web, env: { CNI_NETNS: link } };
  expect(await lab.add(call)).toMatchObject({ exitCode: 0 });
  for (const type of ["ptp", "bridge"]) lab.plugins.script(`${type} DEL`, failed(11, "busy"));
  expect(await lab.del(call)).toMatchObject({ exitCode: 1 });
  lab.kernel.removeLink(link, "eth0");
  for (const type of ["ptp", "bridge"]) lab.plugins.unscript(`${type} DEL`);
  lab.plugins.calls.length = 0;
  lab.advance(700_000);
  expect(await lab.status()).toMatchObject({ exitCode: 0 });
  const dels = ["bridge", "ptp"].flatMap((type) => lab.plugins.of(type, "DEL"));
  expect(dels.map((del) => del.netns)).toEqual([link, link]);
});

/** A DEL of `slow`, `bridge` and `ptp`, the first of which hangs. */
test.each<{ by: "ADD" | "DEL" | "GC"; at: string; ms?: number; rest: string }>([
  { by: "DEL", at: link, rest: "" },
  { by: "DEL", at: path, rest: "" },
  { by: "DEL", at: uuid, rest: uuid },
  { by: "DEL", at: link, ms: 100, rest: link },
  { by: "GC", at: link, rest: "" },
  { by: "ADD", at: link, rest: "" },
])("a slow $by passes '$rest' when another sandbox has got its path $at", async (scene) => {
  const { by, at, ms = 2000, rest } = scene;
  const lab = podLab("a", { a: ["bridge", "slow"] });
  const environmentOf = (found: Found) => (at === path ? environment(found) : { CNI_NETNS: at });
  const call = { ...web, env: environmentOf(one) };
  const second = { env: { ...environmentOf(another), CNI_CONTAINERID: "c2" } };
  lab.kernel.addNamespace(at);
  lab.plugins.script("slow DEL", async () => {
    lab.advance(ms);
    lab.kernel.addNamespace(at);
    expect(await lab.add(second)).toMatchObject({ exitCode: 0 });
    return undefined;
  });
  if (by === "ADD") lab.plugins.script("slow ADD", failed(7, "no"));
  expect(await lab.add(call)).toMatchObject({ exitCode: by === "ADD" ? 1 : 0 });
  if (by === "DEL") expect(await lab.del(call)).toMatchObject({ exitCode: 0 });
  if (by === "GC") {
    lab.source.addPod({ name: "listed" });
    await lab.add({ pod: "default/listed", env: { CNI_CONTAINERID: "listed" } });
    expect(await lab.gc(["listed"])).toMatchObject({ exitCode: 0 });
  }
  const dels = ["slow", "bridge", "ptp"].flatMap((type) => lab.plugins.of(type, "DEL"));
  expect(dels.map((del) => del.netns)).toEqual([at, rest, rest]);
  expect(lab.records.keys).not.toContain("c1@eth0");
});
