import { expect, test } from "vitest";
import { type EngineLab, netns, network } from "#engine/testing/engine-lab.ts";
import { ended, exited, failed } from "#engine/testing/fake-plugins.ts";
import { missing, podLab, web } from "#engine/testing/pod-lab.ts";

/** A pod with three networks: ptp on eth0, bridge on net1, macvlan and tuning on net2. */
const threeNetworks = (annotation = "a,b"): EngineLab =>
  podLab(annotation, { a: ["bridge"], b: ["macvlan", "tuning"] });

test.each([
  { position: "first", failing: "ptp", undone: ["ptp DEL eth0"] },
  { position: "middle", failing: "bridge", undone: ["bridge DEL net1", "ptp DEL eth0"] },
  {
    position: "last",
    failing: "macvlan",
    undone: ["tuning DEL net2", "macvlan DEL net2", "bridge DEL net1", "ptp DEL eth0"],
  },
  {
    position: "last chain's end",
    failing: "tuning",
    undone: ["tuning DEL net2", "macvlan DEL net2", "bridge DEL net1", "ptp DEL eth0"],
  },
])(
  "add() stops when the $position attachment fails and rolls back what it attempted, last first [N-7.2a] [N-7.2b] [R-1.0-22] [R-0.3-16]",
  async ({ failing, undone }) => {
    const lab = threeNetworks();
    lab.plugins.script(`${failing} ADD`, failed(110, "no address left"));
    expect(await lab.add(web)).toMatchObject({ exitCode: 1, json: { code: 110 } });
    expect(lab.plugins.log("ADD").at(-1)).toContain(`${failing} ADD`);
    expect(lab.plugins.log("DEL")).toEqual(undone);
    expect(lab.journal.at(-1)).toBe("finish c1@eth0");
    expect(lab.records.keys).toEqual([]);
    expect(lab.kernel.linkNames(netns)).toEqual([]);
    expect(lab.publisher.published.size).toBe(0);
  },
);

test("add() keeps the order of the attachments that it cannot detach", async () => {
  const lab = podLab("a,b,a", { a: ["bridge"], b: ["macvlan"] });
  lab.plugins.script("macvlan ADD", failed(5, "busy"));
  for (const type of ["ptp", "bridge"]) lab.plugins.script(`${type} DEL`, failed(5, "busy"));
  expect(await lab.add(web)).toMatchObject({ exitCode: 1 });
  const { attachments } = lab.records.writes.at(-1)!.record;
  expect(attachments.map(({ ifName }) => ifName)).toEqual(["eth0", "net1"]);
});

test("add() returns the failing delegate's code and details and names network and interface", async () => {
  const lab = threeNetworks();
  const error = { cniVersion: "1.0.0", code: 142, msg: "no address left", details: "range full" };
  lab.plugins.script("bridge ADD", exited(1, error));
  const { json } = await lab.add(web);
  expect(json).toEqual({
    cniVersion: "1.0.0",
    code: 142,
    msg: 'network default/a (net1): plugin type="bridge" failed (add): no address left',
    details: "range full",
  });
  const message = `${json.msg}; range full`;
  expect(lab.events.recorded.at(-1)).toMatchObject({ reason: "AttachFailed", message });
});

const longType = "y".repeat(900);

test.each<{ does: string; length: number; prepare: (lab: EngineLab) => void }>([
  {
    does: "cuts a plugin's message to 300 characters",
    length: 300,
    prepare: ({ plugins }) => plugins.script("bridge ADD", failed(110, "x".repeat(1000))),
  },
  {
    does: "does not cut Plexus's own",
    length: 1000,
    prepare: ({ plugins, source }) => {
      source.addNad("default/a", network("net-a", longType));
      plugins.setLookup(longType, missing);
    },
  },
])("the event of a failed add() $does", async ({ length, prepare }) => {
  const lab = threeNetworks();
  prepare(lab);
  const { msg } = (await lab.add(web)).json;
  expect(lab.events.recorded.at(-1)?.message).toBe(String(msg).slice(0, length));
});

test("add() records the failure before the rollback, without the networks that it did not attempt", async () => {
  const lab = threeNetworks();
  lab.plugins.script("bridge ADD", failed(110, "no address left"));
  await lab.add(web);
  const { attachments } = lab.records.writes.at(-1)!.record;
  expect(
    attachments.map(({ displayName, failedAdd }) => [displayName, failedAdd?.message]),
  ).toEqual([
    ["default-net", undefined],
    ["default/a", expect.stringContaining("no address left")],
  ]);
});

test("add() rolls back even if it cannot record the failure, and logs that", async () => {
  const lab = threeNetworks();
  lab.plugins.script("ptp ADD", failed(110, "no address left"));
  lab.records.failWrite = { nth: 2, error: new Error("disk full") };
  expect((await lab.add(web)).json).toMatchObject({ code: 110 });
  expect(lab.plugins.log("DEL")).toEqual(["ptp DEL eth0"]);
  expect(lab.records.keys).toEqual([]);
  expect(lab.logger.lines).toContainEqual({
    level: "warn",
    message: "cannot record the failure of the ADD",
    fields: expect.objectContaining({ err: lab.records.failWrite.error }),
  });
});

test.each([
  { title: "of another failure", outcome: failed(110, "no address left") },
  {
    title: "of a plugin that was killed",
    outcome: { ...ended("signaled"), stderr: "no such device" },
  },
  { title: "of an earlier plugin", type: "bridge", says: 'names master "eth8")' },
  { title: "of a later plugin", type: "vlan", says: 'names master "eth9")' },
])("add() names a link only in the error of the plugin that misses it: $title", async (row) => {
  const { type = "bridge", outcome = failed(999, "Link not found"), says } = row;
  const lab = threeNetworks();
  const plugins = [
    { type: "bridge", master: "eth8", links: [null, { name: "" }] },
    { type: "vlan", master: "eth9", links: "none" },
  ];
  lab.source.addNad("default/a", { ...network("net-a"), plugins });
  lab.plugins.script(`${type} ADD`, outcome);
  expect((await lab.add(web)).json.msg).toEqual(
    says === undefined ? expect.not.stringContaining("eth") : expect.stringContaining(says),
  );
});

test("add() returns the first error if the rollback also fails, keeps the record and logs what remains", async () => {
  const lab = threeNetworks();
  lab.plugins.script("bridge ADD", ({ netns, ifName }) => {
    lab.kernel.addLink(netns, ifName);
    return failed(110, "no address left");
  });
  lab.plugins.script("bridge DEL", failed(5, "lease file locked"));
  expect((await lab.add(web)).json).toMatchObject({ code: 110 });
  expect(new Set(lab.plugins.log("DEL"))).toEqual(new Set(["bridge DEL net1", "ptp DEL eth0"]));
  expect(lab.journal.at(-1)).toBe("update c1@eth0");
  const { record } = lab.records.writes.at(-1)!;
  expect(record.attachments.map((each) => each.displayName)).toEqual(["default/a"]);
  expect(record.teardown).toMatchObject({
    attempts: 1,
    lastError: expect.stringContaining("lease file locked"),
  });
  expect(lab.events.recorded.filter(({ reason }) => reason === "LeftoverAttachment")).toEqual([
    expect.objectContaining({
      pod: "default/web",
      type: "Warning",
      message: expect.stringContaining("lease file locked"),
    }),
  ]);
  expect(lab.logger.lines).toMatchObject([
    {
      level: "error",
      message: expect.stringMatching(
        /no address left; stays recorded: network default\/a .*lease file locked$/,
      ),
    },
  ]);
  lab.plugins.unscript("bridge DEL");
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.records.keys).toEqual([]);
});

test("add() passes the attachments' results to the DELs of the rollback [R-0.4-12] [R-1.1-10]", async () => {
  const lab = threeNetworks();
  lab.plugins.script("macvlan ADD", failed(110, "no parent"));
  await lab.add(web);
  const prevResults = lab.plugins.calls
    .filter((call) => call.command === "DEL")
    .map((call) => [call.type, call.conf.prevResult]);
  expect(prevResults).toEqual([
    ["tuning", undefined],
    ["macvlan", undefined],
    [
      "bridge",
      expect.objectContaining({ ips: [expect.objectContaining({ address: "10.0.0.2/24" })] }),
    ],
    [
      "ptp",
      expect.objectContaining({ ips: [expect.objectContaining({ address: "10.0.0.1/24" })] }),
    ],
  ]);
});

/** A pod with a network whose plugin `firewall` finds its rules by the result. */
const withFirewall = (...more: string[]): EngineLab =>
  podLab("a", { a: ["bridge", "firewall", "tuning", ...more] });

/** The plugins whose DEL got the result of `bridge`, and those whose DEL got none, in order. */
const delsOfNetwork = ({ plugins }: EngineLab): string[] =>
  plugins.calls
    .filter(({ command, ifName }) => command === "DEL" && ifName === "net1")
    .map(({ type, stdin }) => `${type}${stdin.includes("10.0.0.2/24") ? " with result" : ""}`);

const withResult = ["tuning with result", "firewall with result", "bridge with result"];

test.each([
  { title: "fails", outcome: failed(999, "no such sysctl") },
  { title: "is killed", outcome: ended("timeout") },
  { title: "prints an invalid result", outcome: exited(0, "{") },
])("add() passes a chain's last result to DELs if a later plugin $title", async ({ outcome }) => {
  const lab = withFirewall();
  lab.plugins.script("tuning ADD", outcome);
  expect(await lab.add(web)).toMatchObject({ exitCode: 1 });
  expect(delsOfNetwork(lab)).toEqual(withResult);
});

test("add() passes the last result that the record can hold to the DELs of a chain", async () => {
  const more = Array.from({ length: 16 }, () => "tuning");
  const lab = withFirewall(...more);
  lab.plugins.script("firewall ADD", ({ conf }) =>
    exited(0, { ...(conf.prevResult as object), filler: "x".repeat(250_000) }),
  );
  expect((await lab.add(web)).json.msg).toContain("with the results so far");
  expect(lab.plugins.log("ADD").at(-1)).toBe("firewall ADD net1");
  expect(new Set(delsOfNetwork(lab))).toEqual(new Set(withResult));
});

test("add() keeps the last result of a chain for a later DEL if the rollback fails, and says that nothing is attached", async () => {
  const lab = withFirewall();
  lab.plugins.script("tuning ADD", failed(999, "no such sysctl"));
  lab.plugins.script("firewall DEL", failed(5, "busy"));
  await lab.add(web);
  const { attachments } = lab.records.writes.at(-1)!.record;
  expect(attachments.map(({ state, result }) => [state, result])).toEqual([
    ["attempted", undefined],
  ]);
  lab.plugins.unscript("firewall DEL");
  lab.plugins.calls.length = 0;
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(delsOfNetwork(lab)).toEqual(withResult.slice(1));
});

test.each([
  { goesAt: 2, title: "firewall" },
  { goesAt: 3, title: "tuning" },
])("add() has recorded a chain's last result if the shim leaves in $title", async ({ goesAt }) => {
  const lab = withFirewall();
  const host = lab.host();
  host.goesAt = goesAt;
  await expect(lab.add({ ...web, host })).rejects.toThrow("the shim has gone");
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(delsOfNetwork(lab)).toEqual(withResult);
});

test("add() rolls back everything if it cannot set the requested default route", async () => {
  const lab = threeNetworks('[{"name":"a","default-route":["192.0.2.1"]}]');
  const { json } = await lab.add(web);
  expect(json).toMatchObject({ code: 100, msg: expect.stringContaining("192.0.2.1") });
  expect(lab.plugins.log("DEL")).toEqual(["bridge DEL net1", "ptp DEL eth0"]);
  expect(lab.records.keys).toEqual([]);
  expect(lab.publisher.published.size).toBe(0);
});

test("add() rolls back everything, including the published status, if it cannot record the results", async () => {
  const lab = threeNetworks();
  const gate = Promise.withResolvers<void>();
  lab.publisher.gate = gate.promise;
  setTimeout(gate.resolve, 20);
  lab.records.failWrite = { nth: 4, error: new Error("disk full") };
  expect((await lab.add(web)).json).toMatchObject({ msg: "disk full" });
  expect(lab.plugins.log("DEL")).toHaveLength(4);
  expect(lab.records.keys).toEqual([]);
  await gate.promise;
  await new Promise(setImmediate);
  expect(lab.publisher.published.size).toBe(0);
  expect(lab.events.reasons).toEqual(["Internal"]);
});

test("add() rolls back and publishes nothing if the runtime's CNI version cannot express the result", async () => {
  const lab = threeNetworks();
  const withoutAddress = { cniVersion: "1.0.0", interfaces: [{ name: "eth0", sandbox: netns }] };
  lab.plugins.script("ptp ADD", exited(0, withoutAddress));
  const { json } = await lab.add({ ...web, conf: { cniVersion: "0.2.0" } });
  expect(json).toMatchObject({ cniVersion: "0.2.0", code: 1 });
  expect(lab.plugins.log("DEL")).toHaveLength(4);
  expect(lab.records.keys).toEqual([]);
  expect(lab.journal).not.toContain("publish default/web");
  expect(lab.events.reasons).toEqual(["IncompatibleCniVersion"]);
});

test.each([
  ["printed an invalid result", exited(0, "[]"), 6],
  ["printed nothing", exited(0, ""), 6],
  ["was killed after its timeout", ended("timeout"), 999],
  ["printed too much", ended("overflow", "stdout passes 16 MiB"), 999],
])("add() rolls back a delegate that %s", async (_, outcome, code) => {
  const lab = threeNetworks();
  lab.plugins.script("bridge ADD", outcome);
  const { json } = await lab.add(web);
  expect(json).toMatchObject({ code, msg: expect.stringContaining("network default/a (net1)") });
  expect(lab.plugins.log("DEL")).toEqual(["bridge DEL net1", "ptp DEL eth0"]);
});

test.each(["missing", "refused"] as const)(
  "add() runs no DEL for a network whose first plugin is %s, as none of its plugins ran",
  async (outcome) => {
    const lab = threeNetworks();
    lab.plugins.script("bridge", ended(outcome));
    const { json } = await lab.add(web);
    expect(json).toMatchObject({ code: 999, msg: expect.stringContaining("default/a (net1)") });
    expect(lab.plugins.log("DEL")).toEqual(["ptp DEL eth0"]);
    expect(lab.records.keys).toEqual([]);
    expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  },
);

test.each([
  { of: "an attached network", outcome: failed(5, "busy"), plugin: "bridge", network: "default/a" },
  { of: "a plugin that was killed", outcome: ended("timeout"), plugin: "tuning" },
])("add() keeps a record of $of", async ({ outcome, plugin, network = "default/b" }) => {
  const lab = threeNetworks();
  lab.plugins.script("tuning ADD", outcome);
  lab.plugins.script(`${plugin} DEL`, ended("missing"));
  expect(await lab.add(web)).toMatchObject({ exitCode: 1 });
  const dels = ["tuning DEL net2", "macvlan DEL net2", "bridge DEL net1", "ptp DEL eth0"];
  expect(lab.plugins.log("DEL")).toEqual(dels);
  const { attachments, teardown } = lab.records.writes.at(-1)!.record;
  expect(attachments.map(({ displayName }) => displayName)).toEqual([network]);
  expect(teardown).toMatchObject({ reason: "PluginMissing" });
  lab.plugins.unscript(`${plugin} DEL`);
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.records.keys).toEqual([]);
});

/** Orders of one ADD: ptp, bridge, macvlan and tuning. */
test.each([
  { goesAt: 0, ran: [] },
  { goesAt: 1, ran: ["ptp ADD eth0"] },
  { goesAt: 3, ran: ["ptp ADD eth0", "bridge ADD net1", "macvlan ADD net2"] },
])("add() keeps the record if the shim leaves at order $goesAt", async ({ goesAt, ran }) => {
  const lab = threeNetworks();
  const host = lab.host();
  host.goesAt = goesAt;
  await expect(lab.add({ ...web, host })).rejects.toThrow("the shim has gone");
  expect(lab.plugins.log()).toEqual(ran);
  expect(lab.records.keys).toEqual(["c1@eth0"]);
  expect(lab.publisher.published.size).toBe(0);
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.kernel.linkNames(netns)).toEqual([]);
  expect(lab.records.keys).toEqual([]);
});

test("add() records nothing if the shim has disconnected: its sandbox may be detached by now", async () => {
  const lab = threeNetworks();
  const host = lab.host();
  host.goesAt = 0;
  await expect(host.find([], [])).rejects.toThrow("the shim has gone");
  await expect(lab.add({ ...web, host })).rejects.toThrow("the shim has gone");
  expect(lab.records.writes).toEqual([]);
});

test("add() records nothing if a process that was stopped reads only then that the shim has gone", async () => {
  const lab = threeNetworks();
  const host = lab.host();
  host.goesAt = 0;
  const readEnd = (): void => void host.find([], []).catch(() => undefined);
  setImmediate(() => setImmediate(readEnd));
  await expect(lab.add({ ...web, host })).rejects.toThrow("the shim has gone");
  expect(lab.records.writes).toEqual([]);
});

test("add() keeps the record if the shim disconnects during the rollback", async () => {
  const lab = threeNetworks();
  lab.plugins.script("bridge ADD", failed(110, "no address left"));
  const host = lab.host();
  host.goesAt = 3;
  await expect(lab.add({ ...web, host })).rejects.toThrow("the shim has gone");
  expect(lab.plugins.log("DEL")).toEqual(["bridge DEL net1"]);
  expect(lab.records.keys).toEqual(["c1@eth0"]);
});

test("add() returns the first error if it cannot remove the record after the rollback", async () => {
  const lab = threeNetworks();
  lab.plugins.script("ptp ADD", failed(110, "no address left"));
  lab.records.failFinish = new Error("read-only file system");
  expect((await lab.add(web)).json).toMatchObject({ code: 110 });
  expect(lab.logger.lines).toContainEqual({
    level: "error",
    message: "cannot update the attachment record after a rollback",
    fields: expect.objectContaining({ err: lab.records.failFinish }),
  });
});
