import { expect, test } from "vitest";
import type { DelegateOutcome } from "#cni/runtime/delegate.ts";
import { readCall } from "#engine/ports/call.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import { calledUid } from "#engine/record/record.ts";
import { EngineLab, type LabOptions, network } from "#engine/testing/engine-lab.ts";
import { ended, failed } from "#engine/testing/fake-plugins.ts";
import { mirrorAnnotation } from "#npwg/object-meta.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";

const minute = 60_000;

/** What `plexus agent` sends. */
const agent = readCall({ env: { CNI_COMMAND: "AGENT", CNI_PATH: "/opt/agent/bin" }, stdin: "" });

const keyOf = (containerId: string) => ({ containerId, ifName: "eth0" });

/** The options of a call for one container. */
function container(id: string): { env: Record<string, string>; pod: string } {
  const netns = `/run/netns/${id}`;
  return { env: { CNI_CONTAINERID: id, CNI_NETNS: netns }, pod: `default/${id}/uid-${id}` };
}

/** Pods in the containers `c1`, `c2` …, each with the default network and the network `a`. */
async function pods(ids: readonly string[], options: LabOptions = {}): Promise<EngineLab> {
  const lab = new EngineLab({ leftoverDuty: "daemon", uptimeMs: 60 * minute, ...options });
  lab.source.addNad("default/a", network("net-a", "bridge"));
  for (const id of ids) {
    lab.kernel.addNamespace(`/run/netns/${id}`);
    lab.source.addPod({ name: id, uid: `uid-${id}`, annotations: { [networksAnnotation]: "a" } });
    expect(await lab.add(container(id))).toMatchObject({ exitCode: 0 });
  }
  lab.plugins.calls.length = 0;
  return lab;
}

/** Lets the DEL of each of these containers fail once: it would succeed now. */
async function failDels(lab: EngineLab, ...ids: string[]): Promise<void> {
  lab.plugins.script("bridge DEL", failed(5, "busy"));
  for (const id of ids) expect(await lab.del(container(id))).toMatchObject({ exitCode: 1 });
  lab.plugins.unscript("bridge DEL");
  lab.plugins.calls.length = 0;
}

/** `c1`, whose DEL failed once and would succeed now; the others are attached. */
async function withLeftover(
  others: readonly string[] = [],
  options: LabOptions = {},
): Promise<EngineLab> {
  const lab = await pods(["c1", ...others], options);
  await failDels(lab, "c1");
  return lab;
}

/** A call as long after the last one. */
async function later(lab: EngineLab, ms: number): Promise<void> {
  lab.advance(ms);
  await lab.status();
}

function forC1(lab: EngineLab): string[] {
  const calls = lab.plugins.calls.filter((call) => call.containerId === "c1");
  return calls.map(({ type, command, ifName }) => `${type} ${command} ${ifName}`);
}

test.each<["add" | "check" | "del" | "status" | "gc", boolean, LabOptions?]>([
  ["status", true],
  ["gc", true],
  ["del", true],
  ["add", false],
  ["check", false],
  // A process that serves a single call.
  ["del", false, { leftoverDuty: "none" }],
])("a later %s retries another sandbox's teardown: %s %j", async (command, repeats, options) => {
  const lab = await withLeftover(["c2"], options);
  lab.advance(31_000);
  lab.kernel.addNamespace("/run/netns/c3");
  lab.source.addPod({ name: "c3", uid: "uid-c3" });
  const calls = {
    ...{ status: () => lab.status(), gc: () => lab.gc(["c1", "c2"]) },
    ...{ del: () => lab.del(container("c2")), check: () => lab.check(container("c2")) },
    add: () => lab.add(container("c3")),
  };
  expect(await calls[command]()).toMatchObject({ exitCode: 0 });
  expect(forC1(lab)).toEqual(repeats ? ["bridge DEL net1"] : []);
  expect(lab.records.keys.includes("c1@eth0")).toBe(!repeats);
  expect(lab.publisher.withdrawn.includes("default/c1")).toBe(repeats);
});

/** A sandbox of the pod of `c1`, which has got no DEL. */
async function replace(lab: EngineLab, id: string): Promise<void> {
  lab.kernel.addNamespace(`/run/netns/${id}`);
  const { env } = container(id);
  expect(await lab.add({ ...container("c1"), env })).toMatchObject({ exitCode: 0 });
  lab.plugins.calls.length = 0;
}

test.each(["oneCall", "daemon"] as const)(
  "a sandbox that a later one of its pod has replaced is detached once nothing is at its path (%s)",
  async (leftoverDuty) => {
    const lab = await pods(["c1"], { leftoverDuty });
    await replace(lab, "c2");
    await later(lab, 31_000);
    expect(lab.records.keys).toEqual(["c1@eth0", "c2@eth0"]);
    lab.kernel.removeNamespace("/run/netns/c1");
    await later(lab, 31_000);
    expect(forC1(lab)).toEqual(["bridge DEL net1", "ptp DEL eth0"]);
    expect(lab.records.keys).toEqual(["c2@eth0"]);
  },
);

test("a leftover that cannot be detached is marked in its record, which every tool sees", async () => {
  const lab = await pods(["c1"]);
  await replace(lab, "c2");
  expect(await lab.engine.countLeftovers()).toBe(0);
  lab.kernel.removeNamespace("/run/netns/c1");
  const marks: unknown[] = [];
  lab.plugins.script("bridge DEL", async () => {
    const stored = await lab.records.load(keyOf("c1"));
    marks.push(stored?.record.teardown);
    return failed(5, "busy");
  });
  await later(lab, 31_000);
  expect(marks).toMatchObject([{ attempts: 0, lastError: "its pod has a later sandbox" }]);
  expect(await lab.engine.countLeftovers()).toBe(1);
});

test("what is counted is what `records --leftovers` lists: also before a call has marked it, where namespaces are seen", async () => {
  const lab = await pods(["c1"], { seesNamespaces: true });
  await replace(lab, "c2");
  expect(await lab.engine.countLeftovers()).toBe(0);
  lab.kernel.removeNamespace("/run/netns/c1");
  expect(await lab.engine.countLeftovers()).toBe(1);
});

test.each(["oneCall", "daemon"] as const)(
  "a later DEL detaches a sandbox whose ADD was interrupted, unless its shim still runs (%s)",
  async (leftoverDuty) => {
    const lab = await pods(["c1", "c2", "c3"], { leftoverDuty });
    lab.plugins.script("bridge ADD", () => Promise.reject(new HostGoneError()));
    lab.kernel.addNamespace("/run/netns/c4");
    lab.source.addPod({ name: "c4", uid: "uid-c4", annotations: { [networksAnnotation]: "a" } });
    await expect(lab.add(container("c4"))).rejects.toThrow(HostGoneError);
    lab.advance(31_000);
    const isLocked = lab.records.isLocked;
    lab.records.isLocked = async () => true;
    await lab.del(container("c1"));
    expect(lab.records.keys).toContain("c4@eth0");
    lab.records.isLocked = isLocked;
    lab.advance(31_000);
    await lab.del(container("c2"));
    expect(lab.records.keys).toEqual(["c3@eth0"]);
  },
);

test.each([
  ["ran", true],
  ["began", false],
])("a process stopped after it read a record detaches nothing if its ADD %s", async (_, ran) => {
  const lab = await pods(["c1"]);
  const { record, plan } = lab.records.writes.at(-1)!;
  const attachments = record.attachments.map((each) => ({
    ...each,
    state: "attempted" as const,
  }));
  lab.records.put({ ...record, attachments }, plan);
  lab.advance(31_000);
  const { clockMs } = record;
  const { isLocked, load } = lab.records;
  lab.records.isLocked = async () => ran;
  lab.records.load = async (key) => {
    const began = { ...record, attachments, clockMs: clockMs + (ran ? 0 : 31_000) };
    lab.records.put(began, plan);
    const stored = await load.call(lab.records, key);
    lab.advance(minute);
    Object.assign(lab.records, { isLocked, load });
    return stored;
  };
  await lab.status();
  expect(lab.records.load).toBe(load);
  expect(forC1(lab)).toEqual([]);
});

test("a sandbox of whose record an update is lost is detached when its pod and its namespace are gone", async () => {
  const lab = await pods(["c1", "c2"]);
  lab.records.changeAttachments(() => ({ state: "attempted" }), keyOf("c1"));
  lab.records.change(() => ({ hasLostUpdate: true }), keyOf("c1"));
  const isKept = (): boolean => lab.records.keys.includes("c1@eth0");
  await later(lab, minute);
  lab.source.removePod("default/c1");
  for (let i = 0; i < 30; i++) await later(lab, minute);
  expect(isKept()).toBe(true);
  lab.kernel.removeNamespace("/run/netns/c1");
  for (let i = 0; i < 15; i++) await later(lab, minute);
  expect(isKept()).toBe(false);
});

test("an ADD that runs is not interrupted when the clock is set forward, even if its lock cannot be seen", async () => {
  const lab = await pods(["c1"]);
  lab.records.changeAttachments(({ isDefault, state }) => ({
    state: isDefault ? state : "attempted",
  }));
  lab.stepClock(60 * minute);
  await lab.status();
  expect([forC1(lab), await lab.engine.countLeftovers()]).toEqual([[], 0]);
  await later(lab, minute);
  expect(forC1(lab)).toEqual(["bridge DEL net1", "ptp DEL eth0"]);
});

test("a process for one call leaves records of attached sandboxes alone, and queries no pods", async () => {
  const lab = await pods(["c1", "c2"], { leftoverDuty: "oneCall" });
  lab.source.removePod("default/c1");
  lab.source.asked.length = 0;
  lab.advance(60 * minute);
  await lab.del(container("c2"));
  expect([lab.records.keys, lab.source.asked]).toEqual([["c1@eth0"], []]);
});

test("a DEL waits for no list of the records, except the first one after a start", async () => {
  const lab = await pods(["c1", "c2"]);
  expect(await lab.del(container("c1"))).toMatchObject({ exitCode: 0 });
  lab.advance(2 * minute);
  // As with an API server: only a status file is kept for a pod's other sandbox.
  lab.publisher.detached = async () => undefined;
  lab.records.list = () => new Promise(() => undefined);
  expect(await lab.del(container("c2"))).toMatchObject({ exitCode: 0 });
});

test("a DEL uses the last list of leftovers, and lists the records for the next one", async () => {
  const lab = await pods(["c1", "c2", "c3"]);
  await lab.status();
  const failedAt = "2026-01-01T00:00:00Z";
  const teardown = { firstFailedAt: failedAt, failedAt, attempts: 1, lastError: "busy" };
  lab.records.change(() => ({ teardown }), keyOf("c1"));
  lab.advance(2 * minute);
  await lab.del(container("c2"));
  expect(lab.records.keys).toEqual(["c1@eth0", "c3@eth0"]);
  await lab.del(container("c3"));
  expect(lab.records.keys).toEqual([]);
});

test("the backoff of a teardown doubles with each failure, up to ten minutes, and does not fail other calls", async () => {
  const lab = await withLeftover();
  lab.plugins.script("bridge DEL", failed(5, "still busy"));
  const attempts: number[] = [];
  for (let second = 0; second < 3600; second += 10) {
    const before = forC1(lab).length;
    expect(await lab.status()).toMatchObject({ exitCode: 0 });
    if (forC1(lab).length > before) attempts.push(second);
    lab.advance(10_000);
  }
  const waits = attempts.map((at, i) => at - (attempts[i - 1] ?? 0));
  expect(waits.slice(0, 8)).toEqual([30, 60, 120, 240, 480, 600, 600, 600]);
  expect(lab.records.writes.at(-1)?.record.teardown).toMatchObject({
    attempts: attempts.length + 1,
    lastError: expect.stringContaining("still busy"),
  });
});

test("the backoff applies even if the failure cannot be recorded", async () => {
  const lab = await withLeftover();
  lab.plugins.script("bridge DEL", failed(5, "still busy"));
  lab.advance(31_000);
  lab.records.failWrite = { nth: lab.records.writes.length + 1, error: new Error("disk full") };
  await lab.status();
  await later(lab, 45_000);
  expect(forC1(lab)).toHaveLength(1);
});

test("a leftover is due although the machine's clock was set back", async () => {
  const lab = await withLeftover();
  lab.stepClock(-60 * minute);
  await later(lab, 61_000);
  expect(lab.records.keys).toEqual([]);
});

/** `c1` with networks of the plugins `p1`, `p2` …, whose DEL has failed once. */
async function withNetworks(count: number): Promise<EngineLab> {
  const lab = new EngineLab({ leftoverDuty: "daemon" });
  const types = Array.from({ length: count }, (_, i) => `p${i + 1}`);
  for (const type of types) lab.source.addNad(`default/${type}`, network(type, type));
  const annotations = { [networksAnnotation]: types.join(",") };
  lab.kernel.addNamespace("/run/netns/c1");
  lab.source.addPod({ name: "c1", uid: "uid-c1", annotations });
  expect(await lab.add(container("c1"))).toMatchObject({ exitCode: 0 });
  for (const type of types) lab.plugins.script(`${type} DEL`, failed(5, "busy"));
  expect(await lab.del(container("c1"))).toMatchObject({ exitCode: 1 });
  lab.plugins.calls.length = 0;
  return lab;
}

/** A plugin that needs this time, and is killed if its timeout is shorter. */
function needing(
  lab: EngineLab,
  ms: number,
): (call: { timeoutMs: number }) => DelegateOutcome | undefined {
  return ({ timeoutMs }) => {
    lab.advance(Math.min(ms, timeoutMs));
    return timeoutMs < ms ? ended("timeout") : undefined;
  };
}

test("a leftover with eight networks of one second each is detached in two calls", async () => {
  const lab = await withNetworks(8);
  for (let i = 1; i <= 8; i++) lab.plugins.script(`p${i} DEL`, needing(lab, 1000));
  await later(lab, 31_000);
  expect(lab.records.writes.at(-1)?.record.attachments).toHaveLength(4);
  await later(lab, 61_000);
  expect(lab.records.keys).toEqual([]);
});

test("networks of a leftover that hang do not block a slow network", async () => {
  const lab = await withNetworks(4);
  for (const type of ["p1", "p3", "p4"]) {
    lab.plugins.script(`${type} DEL`, needing(lab, Number.POSITIVE_INFINITY));
  }
  lab.plugins.script("p2 DEL", needing(lab, 4900));
  for (let attempt = 0; attempt < 4; attempt++) {
    lab.advance(600_000);
    expect(await lab.status()).toMatchObject({ exitCode: 0 });
  }
  const left = lab.records.writes.at(-1)?.record.attachments.map(({ displayName }) => displayName);
  expect(left).toEqual(["default/p1", "default/p3", "default/p4"]);
});

test("a call that took long retries no leftover", async () => {
  const lab = await withLeftover(["c2"]);
  lab.advance(31_000);
  lab.plugins.script("ptp DEL", () => {
    lab.advance(21_000);
    return undefined;
  });
  expect(await lab.del(container("c2"))).toMatchObject({ exitCode: 0 });
  expect(forC1(lab)).toEqual([]);
});

test("a call retries only one teardown, the one that failed first", async () => {
  const lab = await pods(["c1", "c2"]);
  await failDels(lab, "c2", "c1");
  await later(lab, 31_000);
  expect(lab.records.keys).toEqual(["c1@eth0"]);
  await later(lab, 11_000);
  expect(lab.records.keys).toEqual([]);
});

test("a leftover whose container has a call in flight is skipped", async () => {
  const lab = await withLeftover(["c2"]);
  lab.advance(31_000);
  const release = Promise.withResolvers<void>();
  lab.plugins.script("bridge DEL", async (call) => {
    if (call.containerId === "c1") await release.promise;
    return undefined;
  });
  const own = lab.del(container("c1"));
  await lab.del(container("c2"));
  expect(forC1(lab)).toEqual(["bridge DEL net1"]);
  release.resolve();
  expect(await own).toMatchObject({ exitCode: 0 });
});

test("a record that another process changes during the teardown is kept", async () => {
  const lab = await withLeftover();
  lab.advance(31_000);
  const { record, plan } = lab.records.writes.at(-1)!;
  lab.plugins.script("bridge DEL", async () => {
    await lab.records.update({ ...record, listName: "changed" }, plan);
    return undefined;
  });
  expect(await lab.status()).toMatchObject({ exitCode: 0 });
  expect(lab.records.keys).toEqual(["c1@eth0"]);
  expect(lab.records.writes.at(-1)?.record.listName).toBe("changed");
});

test("sandboxes from before a reboot are detached without a namespace ten minutes after start-up", async () => {
  const before = await pods(["c1"]);
  const lab = await pods([]);
  const { record, plan } = before.records.writes.at(-1)!;
  lab.records.put({ ...record, bootId: "earlier" }, plan);
  lab.kernel.removeNamespace("/run/netns/c1");
  await lab.status();
  expect(lab.records.keys).toEqual(["c1@eth0"]);
  await later(lab, 11 * minute);
  expect(forC1(lab)).toEqual(["bridge DEL net1", "ptp DEL eth0"]);
  expect(new Set(lab.plugins.calls.map((call) => call.netns))).toContain("");
  expect(lab.records.keys).toEqual([]);
});

test("a process for one call detaches sandboxes of an earlier boot ten minutes after the machine's start", async () => {
  const lab = await pods(["c1"], { leftoverDuty: "oneCall" });
  lab.bootId = "after-the-reboot";
  lab.kernel.removeNamespace("/run/netns/c1");
  await lab.status();
  expect(lab.records.keys).toEqual([]);
});

test.each(["oneCall", "daemon"] as const)(
  "running sandboxes that a process with another boot ID attached stay, and are no leftovers (%s)",
  async (leftoverDuty) => {
    const ids = Array.from({ length: 20 }, (_, i) => `c${i + 1}`);
    const lab = await pods(ids, { leftoverDuty });
    lab.bootId = "that-of-the-node";
    for (let i = 0; i < 25; i++) {
      lab.advance(minute);
      expect(await lab.status()).toMatchObject({ exitCode: 0 });
    }
    expect(await lab.engine.retryAllLeftovers(agent, lab.host())).toEqual([]);
    expect([lab.plugins.log("DEL"), await lab.engine.countLeftovers()]).toEqual([[], 0]);
    await failDels(lab, "c20");
    await later(lab, minute);
    expect(lab.records.keys).not.toContain("c20@eth0");
    expect(lab.records.keys).toHaveLength(19);
  },
);

test("a sandbox whose pod and namespace have been gone for ten minutes is detached", async () => {
  const lab = await pods(["c1", "c2"]);
  await lab.status();
  lab.advance(minute);
  lab.source.removePod("default/c1");
  lab.kernel.removeNamespace("/run/netns/c1");
  await lab.status();
  await later(lab, 9 * minute);
  expect(forC1(lab)).toEqual([]);
  await later(lab, 2 * minute);
  expect(forC1(lab)).toEqual(["bridge DEL net1", "ptp DEL eth0"]);
  expect(lab.records.keys).toEqual(["c2@eth0"]);
});

test("a call looks past up to 16 sandboxes that may run, and past those without a sign", async () => {
  const others = Array.from({ length: 20 }, (_, i) => `attached${i}`);
  const deleted = Array.from({ length: 18 }, (_, i) => `c${i}`);
  const lab = await pods([...others, ...deleted]);
  for (const name of deleted) lab.source.removePod(`default/${name}`);
  await later(lab, minute);
  await later(lab, 10 * minute);
  for (const [gone, isDetached] of [
    ["c16", false],
    ["c15", true],
  ] as const) {
    lab.kernel.removeNamespace(`/run/netns/${gone}`);
    await later(lab, minute);
    expect(lab.records.keys.includes(`${gone}@eth0`)).toBe(!isDetached);
  }
});

/** Removes the pod and the namespace of `c1`, then makes another change. */
function alsoGone(change: (lab: EngineLab) => void): (lab: EngineLab) => void {
  return (lab) => {
    lab.source.removePod("default/c1");
    lab.kernel.removeNamespace("/run/netns/c1");
    change(lab);
  };
}

/** The last function runs before each call. */
test.each<[string, (lab: EngineLab) => void, ((lab: EngineLab) => void)?]>([
  ["its pod is gone but not its namespace", ({ source }) => source.removePod("default/c1")],
  [
    "its pod is gone, and a file at the namespace's path is no namespace to this shim",
    alsoGone(({ kernel }) => kernel.hideNamespace("/run/netns/c1")),
  ],
  [
    "its record names another boot, and its namespace cannot be opened",
    (lab) => {
      lab.bootId = "that-of-the-node";
      lab.kernel.refuse = () => 13;
    },
  ],
  [
    "the clock is set forward, and its namespace is gone",
    ({ kernel }) => kernel.removeNamespace("/run/netns/c1"),
    (lab) => lab.stepClock(minute * 60),
  ],
  [
    "the source of pods is not ready",
    alsoGone(({ source }) => Object.assign(source, { notReady: "not listed yet" })),
  ],
  [
    "the source of pods fails",
    alsoGone(({ source }) => Object.assign(source, { failure: new Error("API server away") })),
  ],
  [
    "its pod is static, and has a new mirror",
    alsoGone(({ source, records }) => {
      const uid = calledUid(records.writes.at(-1)!.record) ?? "";
      const annotations = { [mirrorAnnotation]: uid };
      source.addPod({ name: "c1", uid: "of-the-mirror", annotations });
    }),
  ],
  [
    "it has no pod, and its namespace is gone",
    ({ kernel, records }) => {
      const { record, plan } = records.writes.at(-1)!;
      const { pod: _none, ...withoutPod } = record;
      records.put(withoutPod, plan);
      kernel.removeNamespace("/run/netns/c1");
    },
  ],
  [
    "its record names no boot, as in older releases",
    ({ records }) => records.change(() => ({ bootId: "" })),
  ],
  ["nothing says that it is over", () => undefined],
])("a sandbox stays attached when %s", async (_, begin, repeat) => {
  const lab = await pods(["c1"]);
  begin(lab);
  for (let i = 0; i < 20; i++) {
    repeat?.(lab);
    expect(await lab.gc(["c1"])).toMatchObject({ exitCode: 0 });
    lab.advance(minute);
  }
  expect(lab.plugins.log("DEL")).toEqual([]);
  expect(lab.records.keys).toEqual(["c1@eth0"]);
  expect(lab.logger.at("warn").length).toBeLessThanOrEqual(1);
});

test.each<[string, (lab: EngineLab) => void]>([
  ["detached", (lab) => Object.assign(lab.records, { load: async () => undefined })],
  [
    "tried",
    (lab) => {
      const { record, plan } = lab.records.writes.at(-1)!;
      const teardown = { ...record.teardown!, attempts: 2 };
      lab.records.load = async () => ({ record: { ...record, teardown }, plan });
    },
  ],
  [
    "attached",
    (lab) => {
      const { record, plan } = lab.records.writes.at(-1)!;
      const { teardown: _none, ...attached } = record;
      const inState = (state: "attempted" | "attached") => ({
        ...attached,
        attachments: record.attachments.map((each) => ({ ...each, state })),
      });
      lab.records.put(inState("attempted"), plan);
      lab.records.load = async () => ({ record: inState("attached"), plan });
    },
  ],
])("a leftover that another process has %s since the list is skipped", async (_, change) => {
  const lab = await withLeftover();
  lab.advance(minute);
  change(lab);
  await lab.status();
  expect(await lab.engine.retryAllLeftovers(agent, lab.host())).toEqual([]);
  expect([forC1(lab), lab.logger.at("warn").slice(1)]).toEqual([[], []]);
});

test("the next leftover is tried in the same call if another process has tried the first one", async () => {
  const lab = await pods(["c1", "c2"]);
  await failDels(lab, "c1", "c2");
  lab.advance(minute);
  const load = lab.records.load.bind(lab.records);
  lab.records.load = async (key) => (key.containerId === "c1" ? undefined : load(key));
  await lab.status();
  expect(lab.records.keys).toEqual(["c1@eth0"]);
});

test.each([
  ["default/c2", 0, ["c1@eth0"]],
  ["default/c2", 31_000, ["c1@eth0"]],
  ["other/c2", 0, ["c1@eth0", "c2@eth0"]],
])("a call for the pod %s retries its leftovers first, due or not (%i ms)", async (...row) => {
  const [pod, ms, left] = row;
  const lab = await pods(["c1", "c2"]);
  await failDels(lab, "c1", "c2");
  lab.advance(ms);
  await lab.del({ pod, env: { CNI_CONTAINERID: "again", CNI_NETNS: "" } });
  expect(lab.records.keys).toEqual(left);
});

test("the records are listed again for leftovers after ten seconds, or if that fails, with the next call", async () => {
  const lab = await withLeftover();
  const list = lab.records.list.bind(lab.records);
  let lists = 0;
  lab.records.list = () => {
    lists++;
    return list();
  };
  await lab.status();
  await later(lab, 9000);
  expect(lists).toBe(0);
  await later(lab, 2000);
  expect(lists).toBe(1);
  lab.records.list = () => Promise.reject(new Error("EMFILE"));
  lab.advance(minute);
  expect(await lab.status()).toMatchObject({ exitCode: 0 });
  expect(lab.logger.at("warn")).toContain("cannot list the records to find leftovers");
  lab.records.list = list;
  await lab.status();
  expect(lab.records.keys).toEqual([]);
});

test.each(["oneCall", "daemon"] as const)("%s finds a leftover among 21", async (leftoverDuty) => {
  const lab = await withLeftover(
    Array.from({ length: 20 }, (_, i) => `c${i + 2}`),
    { leftoverDuty },
  );
  await later(lab, minute);
  expect(lab.records.keys).not.toContain("c1@eth0");
});

test("a leftover that cannot be read does not fail the call", async () => {
  const lab = await withLeftover();
  lab.advance(31_000);
  lab.records.failLoad = new Error("EMFILE");
  expect(await lab.status()).toMatchObject({ exitCode: 0 });
  expect(lab.logger.at("warn")).toContain("cannot detach a leftover sandbox");
  expect(await lab.engine.retryLeftover(agent, lab.host())).toBe(false);
});

test("a shim that disconnects during a leftover's teardown ends the call and keeps the record", async () => {
  const lab = await withLeftover();
  lab.advance(31_000);
  lab.plugins.script("bridge DEL", ended("failed"));
  const host = lab.host();
  host.goesAt = 2;
  await expect(lab.status({ host })).rejects.toThrow("the shim has gone");
  expect(lab.records.keys).toEqual(["c1@eth0"]);
});

test.each([0, 1])("a DEL whose shim disconnects at order %i becomes a leftover", async (goesAt) => {
  const lab = await pods(["c1", "c2"]);
  const host = lab.host();
  host.goesAt = goesAt;
  await expect(lab.del({ ...container("c1"), host })).rejects.toThrow("the shim has gone");
  expect(await lab.engine.countLeftovers()).toBe(1);
  lab.plugins.calls.length = 0;
  lab.advance(31_000);
  await lab.del(container("c2"));
  expect(forC1(lab)).toContain("ptp DEL eth0");
  expect(lab.records.keys).toEqual([]);
});

test("an ADD in flight does not count as a leftover, but a leftover whose DEL is repeated does", async () => {
  const lab = await withLeftover();
  const release = Promise.withResolvers<void>();
  const hang = async () => void (await release.promise);
  lab.plugins.script("bridge DEL", hang);
  lab.plugins.script("bridge ADD", hang);
  lab.kernel.addNamespace("/run/netns/c2");
  lab.source.addPod({ name: "c2", uid: "uid-c2", annotations: { [networksAnnotation]: "a" } });
  const calls = [lab.del(container("c1"))];
  await new Promise(setImmediate);
  expect(await lab.engine.countLeftovers()).toBe(1);
  calls.push(lab.add(container("c2")));
  while (!lab.records.keys.includes("c2@eth0")) await new Promise(setImmediate);
  lab.advance(minute);
  expect(await lab.engine.countLeftovers()).toBe(1);
  release.resolve();
  for (const { exitCode } of await Promise.all(calls)) expect(exitCode).toBe(0);
});

test("a first DEL in flight does not count as a leftover", async () => {
  const lab = await pods(["c1"]);
  const release = Promise.withResolvers<void>();
  lab.plugins.script("ptp DEL", async () => void (await release.promise));
  const own = lab.del(container("c1"));
  await new Promise(setImmediate);
  expect(await lab.engine.countLeftovers()).toBe(0);
  release.resolve();
  expect(await own).toMatchObject({ exitCode: 0 });
});

test("retryLeftover() retries one teardown at a time, until none is due", async () => {
  const lab = await pods(["c1", "c2", "c3"]);
  await failDels(lab, "c1", "c2");
  const host = lab.host();
  expect(await lab.engine.retryLeftover(agent, host)).toBe(false);
  lab.advance(31_000);
  expect(await lab.engine.retryLeftover(agent, host)).toBe(true);
  expect(await lab.engine.retryLeftover(agent, host)).toBe(true);
  expect(await lab.engine.retryLeftover(agent, host)).toBe(false);
  expect(lab.plugins.log()).toEqual(["bridge DEL net1", "bridge DEL net1"]);
  expect(lab.plugins.calls[0]?.searchPath).toEqual(["/opt/cni/bin", "/opt/agent/bin"]);
  expect(Math.ceil(lab.plugins.calls[0]!.timeoutMs / 1000)).toBe(30);
  expect(lab.measured.slice(-2)).toEqual(["bridge DEL default/a ok", "bridge DEL default/a ok"]);
  expect(lab.records.keys).toEqual(["c3@eth0"]);
});

test("retryAllLeftovers() tries each leftover once, due or not, and returns the outcomes", async () => {
  const lab = await pods(["c1", "c2", "c3", "c4"]);
  await failDels(lab, "c1", "c2", "c3");
  const release = Promise.withResolvers<void>();
  lab.plugins.script("bridge DEL", async (call) => {
    if (call.containerId === "c3") await release.promise;
    return call.containerId === "c1" ? undefined : failed(5, "busy");
  });
  const own = lab.del(container("c3"));
  lab.plugins.calls.length = 0;
  const outcomes = await lab.engine.retryAllLeftovers(agent, lab.host());
  const ofC1 = lab.plugins.calls.find(({ containerId }) => containerId === "c1");
  expect(ofC1?.searchPath).toEqual(["/opt/cni/bin", "/opt/agent/bin"]);
  expect(Math.ceil(Number(ofC1?.timeoutMs) / 1000)).toBe(30);
  expect(outcomes.map((each) => [each.record.containerId, each.remainsBecause])).toEqual([
    ["c1", undefined],
    ["c2", expect.stringContaining("busy")],
    ["c3", "a call for its container is in flight"],
  ]);
  expect(lab.records.keys).toEqual(["c2@eth0", "c3@eth0", "c4@eth0"]);
  release.resolve();
  await own;
});

test("retryAllLeftovers() says of a leftover whose plan a shim replays that a call is in flight", async () => {
  const lab = await withLeftover();
  lab.records.locked.add("c1");
  expect(await lab.engine.retryAllLeftovers(agent, lab.host())).toMatchObject([
    { remainsBecause: "a call for its container is in flight" },
  ]);
});

test("retryAllLeftovers() keeps a sandbox whose pod is gone but whose namespace exists", async () => {
  const lab = await pods(["c1"]);
  lab.source.removePod("default/c1");
  await lab.status();
  await later(lab, 11 * minute);
  expect(await lab.engine.retryAllLeftovers(agent, lab.host())).toEqual([]);
  expect(lab.plugins.log("DEL")).toEqual([]);
});

test("a record whose content was lost with the power is detached as far as possible and put aside, ten minutes after the start", async () => {
  const lab = await pods(["c1"]);
  lab.records.cutOff(keyOf("c1"));
  await later(lab, 9 * minute);
  expect([forC1(lab), await lab.engine.countLeftovers()]).toEqual([[], 0]);
  lab.advance(minute);
  expect(await lab.engine.countLeftovers()).toBe(1);
  expect(await lab.status()).toMatchObject({ exitCode: 0 });
  expect(forC1(lab)).toEqual(["ptp DEL eth0"]);
  expect([lab.records.keys, lab.records.quarantined]).toEqual([[], ["c1@eth0"]]);
});

/** `c1`, whose record has lost its content ten minutes ago, so that it is due. */
async function withLost(): Promise<EngineLab> {
  const lab = await pods(["c1"]);
  lab.records.cutOff(keyOf("c1"));
  lab.advance(11 * minute);
  return lab;
}

test("a shim that disconnects ends the teardown of a lost record", async () => {
  const lab = await withLost();
  const host = lab.host();
  host.goesAt = 0;
  await expect(lab.status({ host })).rejects.toThrow("the shim has gone");
});

test.each([
  ["far away", Date.UTC(2027, 0, 1)],
  ["now passed", Date.UTC(2026, 0, 1, 0, 4)],
])(
  "a record that lost its content at a time in the future, %s, is detached: the clock was set back",
  async (_, modifiedMs) => {
    const lab = await pods(["c1"]);
    lab.records.cutOff(keyOf("c1"), modifiedMs);
    expect(await lab.engine.countLeftovers()).toBe(0);
    lab.advance(11 * minute);
    expect(await lab.engine.retryLeftover(agent, lab.host())).toBe(true);
    expect(lab.records.quarantined).toEqual(["c1@eth0"]);
  },
);

test("a record whose content is lost waits for its backoff if it cannot be put aside", async () => {
  const lab = await withLost();
  lab.records.quarantine = () => Promise.reject(new Error("EROFS"));
  const retry = () => lab.engine.retryLeftover(agent, lab.host());
  expect([await retry(), await retry()]).toEqual([true, false]);
  expect(lab.logger.at("warn")).toContain("cannot detach a sandbox whose record was lost");
  lab.advance(29_000);
  expect(await retry()).toBe(false);
  lab.advance(2000);
  expect(await retry()).toBe(true);
});

test.each<[string, (lab: EngineLab) => unknown]>([
  ["whose plan a shim replays", ({ records }) => records.locked.add("c1")],
  [
    "that another process has put aside",
    ({ records }) => {
      const list = records.list.bind(records);
      records.list = async () => {
        const listed = await list();
        await records.quarantine(keyOf("c1"));
        return listed;
      };
    },
  ],
])("retryLeftover() has nothing to do with a lost record %s", async (_, change) => {
  const lab = await withLost();
  change(lab);
  expect(await lab.engine.retryLeftover(agent, lab.host())).toBe(false);
  expect(forC1(lab)).toEqual([]);
});

test("a lost record is left to the call of its container that is in flight", async () => {
  const lab = await withLost();
  const release = Promise.withResolvers<void>();
  lab.plugins.script("ptp DEL", async () => void (await release.promise));
  const own = lab.del(container("c1"));
  await new Promise(setImmediate);
  expect(await lab.engine.retryLeftover(agent, lab.host())).toBe(false);
  release.resolve();
  expect(await own).toMatchObject({ exitCode: 0 });
  expect(forC1(lab)).toEqual(["ptp DEL eth0"]);
});

test.each([
  ...["damaged otherwise", "locked by a shim", "emptied since the machine's start"],
  "of a container whose ADD has succeeded",
])("a record whose content is lost stays if it is %s", async (state) => {
  const lab = await pods(["c1"]);
  const key = keyOf("c1");
  if (state === "locked by a shim") {
    lab.records.cutOff(key);
    lab.records.locked.add("c1");
  } else if (state === "damaged otherwise") lab.records.damage(key, "both");
  else if (state === "of a container whose ADD has succeeded") {
    lab.records.cutOff(key);
    lab.multusFiles.cached.set("cluster-net-c1-eth0", "{}");
  } else lab.records.cutOff(key, Date.UTC(2026, 0, 1, 0, 5));
  await later(lab, 11 * minute);
  expect([forC1(lab), lab.records.keys]).toEqual([[], ["c1@eth0"]]);
});
