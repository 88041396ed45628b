import { expect, test } from "vitest";
import type { DelegateOutcome } from "#cni/runtime/delegate.ts";
import { EngineLab, netns, network } from "#engine/testing/engine-lab.ts";
import { ended, exited, failed } from "#engine/testing/fake-plugins.ts";
import { gone, web, withIpam } from "#engine/testing/pod-lab.ts";
import type { JsonObject } from "#lib/json.ts";

const mistake = failed(999, "invalid VLAN ID 5000");

/** A pod whose default network has these plugins; `bridge` fails in ADD and DEL as scripted. */
function labOf(
  conf: JsonObject,
  { add, del = add }: { add: DelegateOutcome; del?: DelegateOutcome },
): EngineLab {
  const lab = new EngineLab({ conf: { delegates: [conf] } });
  lab.source.addPod({ name: "web" });
  lab.plugins.script("bridge ADD", add);
  lab.plugins.script("bridge DEL", del);
  return lab;
}

function forgotten(lab: EngineLab): string[] {
  return lab.events.recorded
    .filter(({ reason, type }) => reason === "AttachmentForgotten" && type === "Warning")
    .map(({ message }) => message);
}

test("add() leaves no record if its plugin fails in DEL, too, which keeps only its interface and an address", async () => {
  const lab = labOf(withIpam("bridge"), { add: mistake });
  expect((await lab.add(web)).json).toMatchObject({ code: 999 });
  expect(lab.records.keys).toEqual([]);
  expect(lab.plugins.log("DEL").at(-1)).toBe("host-local DEL eth0");
  expect(forgotten(lab)).toEqual([
    expect.stringMatching(
      /^network default-net \(eth0\): forgot .* has no interface: plugin type="bridge" failed \(add\): invalid VLAN ID 5000$/,
    ),
  ]);
});

test("add() records at most 1024 characters of a plugin's error", async () => {
  const lab = labOf(withIpam("bridge"), { add: failed(999, "x".repeat(5000)), del: mistake });
  await lab.add(web);
  const { failedAdd } = lab.records.writes.at(-1)!.record.attachments[0]!;
  expect(failedAdd?.message).toMatch(/^plugin type="bridge" failed .*x{900}/);
  expect(failedAdd?.message).toHaveLength(1024);
});

test.each(["at once", "after the grace period"])(
  "del() that gives up a failed ADD $0 keeps its record while the interface may exist",
  async (when) => {
    const lab = labOf(withIpam("bridge"), { add: mistake });
    if (when === "after the grace period") lab.config = { delGraceMs: 0 };
    lab.plugins.script("bridge ADD", () => {
      lab.kernel.addLink(netns, "eth0");
      return mistake;
    });
    expect((await lab.add(web)).exitCode).toBe(1);
    expect(await lab.del(web)).toMatchObject({ exitCode: 1 });
    lab.kernel.removeLink(netns, "eth0");
    lab.kernel.refuse = () => 1;
    expect(await lab.del(web)).toMatchObject({ exitCode: 1 });
    expect(lab.plugins.of("host-local", "DEL")).toEqual([]);
    expect(lab.records.keys).toEqual(["c1@eth0"]);
    lab.kernel.refuse = () => undefined;
    expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
    expect(lab.records.keys).toEqual([]);
  },
);

test("del() does not give up a failed ADD while the shim refuses to execute its IPAM plugin", async () => {
  const lab = labOf(withIpam("bridge"), { add: failed(999, "no store") });
  lab.config = { delGraceMs: 0 };
  lab.plugins.script("host-local DEL", ended("refused"));
  await lab.add(web);
  expect(await lab.del({ ...web, ...gone })).toMatchObject({ exitCode: 1 });
  expect(lab.records.keys).toEqual(["c1@eth0"]);
  lab.plugins.unscript("host-local DEL");
  expect(await lab.del({ ...web, ...gone })).toMatchObject({ exitCode: 0 });
});

interface Uncertain {
  readonly why: string;
  readonly conf?: JsonObject;
  readonly add?: DelegateOutcome;
  readonly del?: DelegateOutcome;
  readonly ipam?: DelegateOutcome;
}

const uncertain: readonly Uncertain[] = [
  { why: "its IPAM plugin fails", ipam: failed(999, "no store") },
  { why: "its IPAM plugin hangs", ipam: ended("timeout") },
  { why: "its IPAM plugin is missing", ipam: ended("missing") },
  { why: "the plugin is missing", del: ended("missing") },
  {
    why: "the plugin masquerades",
    conf: { ...network("default-net"), plugins: [{ type: "bridge", ipMasq: true }] },
  },
  {
    why: "the plugin checks MAC addresses",
    conf: { ...network("default-net"), plugins: [{ type: "bridge", MacSpoofChk: true }] },
  },
];

test.each(uncertain)(
  "del() after a failed ADD waits for the grace period if $why",
  async ({ conf = withIpam("bridge"), add = mistake, del = add, ipam }) => {
    const lab = labOf(conf, { add, del });
    if (ipam !== undefined) lab.plugins.script("host-local DEL", ipam);
    lab.config = { delGraceMs: 60_000 };
    expect((await lab.add(web)).exitCode).toBe(1);
    expect(lab.records.keys).toEqual(["c1@eth0"]);
    lab.stepClock(-365 * 86_400_000);
    lab.advance(59_000);
    expect(await lab.del({ ...web, ...gone })).toMatchObject({ exitCode: 1 });
    lab.advance(1000);
    expect(await lab.del({ ...web, ...gone })).toMatchObject({ exitCode: 0 });
    expect(lab.records.keys).toEqual([]);
  },
);

test.each([
  { how: "timed out", add: { ...mistake, outcome: "timeout" as const } },
  { how: "was killed", add: { ...mistake, outcome: "signaled" as const, code: 9 } },
  { how: "printed too much", add: { ...mistake, outcome: "overflow" as const } },
  { how: "printed no error", add: exited(2, "", "panic: invalid VLAN ID 5000") },
])("del() gives up an attachment whose ADD $how", async ({ add }) => {
  const lab = labOf(withIpam("bridge"), { add, del: mistake });
  expect((await lab.add(web)).exitCode).toBe(1);
  expect(await lab.del({ ...web, ...gone })).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log("DEL").at(-1)).toBe("host-local DEL eth0");
  expect(lab.records.keys).toEqual([]);
});

const incompatible = failed(1, "incompatible CNI versions");
const masquerading = {
  ...network("default-net"),
  plugins: [{ type: "bridge", ipMasq: true, ipam: { type: "host-local" } }],
};

test("a plugin that refused the version in ADD and DEL owes nothing", async () => {
  const lab = labOf(masquerading, { add: incompatible });
  expect((await lab.add(web)).json).toMatchObject({ code: 1 });
  expect(lab.plugins.log("DEL")).toEqual(["bridge DEL eth0"]);
  expect(lab.records.keys).toEqual([]);
  expect(forgotten(lab)).toHaveLength(1);
});

test.each([
  ["ADD", { add: incompatible, del: mistake }],
  ["DEL", { add: mistake, del: incompatible }],
])("a plugin that refused the version only in %s is given up later", async (_, outcomes) => {
  const lab = labOf(masquerading, outcomes);
  await lab.add(web);
  expect(lab.records.keys).toEqual(["c1@eth0"]);
  expect((await lab.del({ ...web, ...gone })).json.msg).toMatch(/gives it up/);
});

test.each([2, 8, 13, 80])("plugins from one with errno %d on owe no DEL", async (code) => {
  const conf = { delegates: [network("default-net", "ptp", "bridge", "tuning")] };
  const lab = new EngineLab({ conf });
  lab.source.addPod({ name: "web" });
  lab.plugins.script("bridge", { ...ended("failed"), code });
  for (const type of ["ptp", "tuning"]) lab.plugins.script(`${type} DEL`, failed(5, "busy"));
  expect((await lab.add(web)).exitCode).toBe(1);
  expect(lab.plugins.log("DEL")).toEqual(["ptp DEL eth0"]);
  const types = (): unknown => lab.records.writes.at(-1)?.plan.steps.map(({ call }) => call.type);
  expect(types()).toEqual(["ptp"]);
  lab.plugins.unscript("ptp DEL");
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.records.keys).toEqual([]);
});

test("del() never gives up an attachment whose ADD succeeded with an invalid result", async () => {
  const lab = labOf(withIpam("bridge"), { add: exited(0, "invalid VLAN ID 5000"), del: mistake });
  lab.config = { delGraceMs: 0 };
  expect((await lab.add(web)).exitCode).toBe(1);
  lab.advance(86_400_000);
  expect(await lab.del({ ...web, ...gone })).toMatchObject({ exitCode: 1 });
  expect(lab.records.keys).toEqual(["c1@eth0"]);
});

test("del() never gives up an attachment whose ADD succeeded", async () => {
  const lab = new EngineLab({ config: { delGraceMs: 0 } });
  lab.source.addPod({ name: "web" });
  await lab.add(web);
  lab.plugins.script("ptp DEL", mistake);
  lab.advance(86_400_000);
  expect(await lab.del({ ...web, ...gone })).toMatchObject({ exitCode: 1 });
  expect(lab.records.keys).toEqual(["c1@eth0"]);
});

test("add() rolls back the earlier plugins of a chain if a later one refuses its configuration", async () => {
  const lab = new EngineLab({
    conf: { delegates: [network("default-net", "ptp", "tuning", "sbr")] },
  });
  lab.source.addPod({ name: "web" });
  lab.plugins.script("tuning", failed(999, "sysctl must be an object"));
  lab.plugins.script("sbr DEL", failed(999, "sbr never ran"));
  lab.config = { delGraceMs: 60_000 };
  await lab.add(web);
  expect(lab.plugins.log("DEL")).toEqual(["sbr DEL eth0", "tuning DEL eth0", "ptp DEL eth0"]);
  expect(lab.kernel.linkNames(netns)).toEqual([]);
  expect(await lab.del(web)).toMatchObject({ exitCode: 1 });
  lab.advance(60_000);
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.records.keys).toEqual([]);
});

test("add() records a plugin's error before the rollback, so that it survives a crash of plexusd", async () => {
  const lab = labOf(withIpam("bridge"), { add: mistake });
  const atDel: unknown[] = [];
  lab.plugins.script("bridge DEL", () => {
    atDel.push(lab.records.writes.at(-1)?.record.attachments[0]?.failedAdd);
    return mistake;
  });
  await lab.add(web);
  expect(atDel[0]).toEqual({
    ...{ position: 0, code: 999 },
    message: 'plugin type="bridge" failed (add): invalid VLAN ID 5000',
  });
});

test("del() fails while an earlier plugin of a chain fails whose later one ended the ADD", async () => {
  const lab = labOf(network("default-net", "ptp", "bridge"), { add: mistake });
  lab.plugins.script("ptp DEL", failed(5, "busy"));
  expect((await lab.add(web)).json).toMatchObject({ code: 999 });
  expect((await lab.del(web)).json).toMatchObject({ code: 5 });
  lab.plugins.unscript("ptp DEL");
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(forgotten(lab)).toHaveLength(1);
});

test("del() after the grace period leaves time for the IPAM plugin of a plugin that hangs", async () => {
  const lab = labOf(withIpam("bridge"), { add: mistake, del: failed(5, "busy") });
  lab.plugins.script("host-local DEL", failed(5, "busy"));
  await lab.add(web);
  lab.plugins.unscript("host-local DEL");
  lab.config = { delGraceMs: 0 };
  lab.plugins.script("bridge DEL", ({ timeoutMs }) => {
    lab.advance(timeoutMs);
    return ended("timeout");
  });
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log("DEL").at(-1)).toBe("host-local DEL eth0");
  expect(lab.records.keys).toEqual([]);
});

test("the event about a forgotten attachment says that its address may stay allocated", async () => {
  const lab = labOf(withIpam("bridge"), { add: mistake, del: failed(5, "busy") });
  lab.plugins.script("host-local DEL", failed(11, "store is locked"));
  await lab.add(web);
  lab.config = { delGraceMs: 0 };
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(forgotten(lab)).toEqual([
    expect.stringMatching(/; an address may stay allocated: .*store is locked$/),
  ]);
});
