import { expect, onTestFinished, test, vi } from "vitest";
import type { PublishOptions } from "#engine/ports/cluster.ts";
import type { AttachmentRecord, StatusPause } from "#engine/record/record.ts";
import { teardownPlan } from "#engine/record/teardown-plan.ts";
import { EngineLab, type LabOptions, sandbox } from "#engine/testing/engine-lab.ts";
import type { FakeHost } from "#engine/testing/fake-host.ts";
import { failed } from "#engine/testing/fake-plugins.ts";
import { eventually } from "#lib/testing/eventually.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";

const web = { pod: "default/web" };
/** The shim is killed. */
async function leave(host: FakeHost): Promise<void> {
  host.goesAt = 0;
  await expect(host.find([], [])).rejects.toThrow("the shim has gone");
}

const unused = async (): Promise<boolean> => false;
const beforeReply = { publishStatus: "beforeReply" } as const;

function labWithPod(options?: LabOptions): EngineLab {
  const lab = new EngineLab(options);
  lab.source.addPod({ name: "web", annotations: {} });
  return lab;
}

/** A pod that is attached, and whose status could not be written in time. */
async function unpublished(): Promise<EngineLab> {
  const lab = labWithPod();
  lab.publisher.outcome = "pending";
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  return lab;
}

const pendingOf = async (lab: EngineLab, key = sandbox): Promise<string | undefined> =>
  (await lab.records.load(key))?.record.pendingStatus?.[networkStatusAnnotation];

test("ADD succeeds if it cannot publish the status, and records the pending status", async () => {
  const lab = await unpublished();
  expect(JSON.parse((await pendingOf(lab)) ?? "[]")).toMatchObject([{ name: "default-net" }]);
  expect((await lab.records.load(sandbox))?.record.attachments[0]?.result).toBeDefined();
});

test.each(["beforeReply", "afterReply"] as const)(
  "ADD leaves no pending status if it is published (%s)",
  async (publishStatus) => {
    const lab = labWithPod({ config: { publishStatus } });
    await lab.add(web);
    expect(lab.publisher.status("default/web")).toMatchObject([{ name: "default-net" }]);
    expect(await pendingOf(lab)).toBeUndefined();
  },
);

test("an ADD that has paid leaves the record to a process that serves the sandbox, until that has ended", async () => {
  const lab = labWithPod();
  lab.records.locked.add(sandbox.containerId);
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(lab.publisher.status("default/web")).toMatchObject([{ name: "default-net" }]);
  expect(await pendingOf(lab)).toBeDefined();
  lab.records.locked.clear();
  await eventually(async () => expect(await pendingOf(lab)).toBeUndefined());
});

test("a status that was not written before the answer is owed only until it is written", async () => {
  const lab = labWithPod({ config: beforeReply });
  lab.publisher.outcome = "pending";
  const beforeAnswered = async (): Promise<void> => {
    expect(await pendingOf(lab)).toBeDefined();
    lab.publisher.outcome = "settled";
  };
  await lab.add({ ...web, beforeAnswered });
  expect(await pendingOf(lab)).toBeUndefined();
});

test("ADD publishes status and event after the answer, and records the status before it", async () => {
  const lab = labWithPod();
  await lab.add({
    ...web,
    beforeAnswered: async () => {
      await new Promise(setImmediate);
      expect([lab.publisher.published.size, lab.events.recorded]).toEqual([0, []]);
      expect(await pendingOf(lab)).toBeDefined();
    },
  });
  expect([lab.publisher.published.size, lab.events.reasons]).toEqual([1, ["AddedInterface"]]);
});

test("the status of an ADD that ended without an answer is published by the next process", async () => {
  const lab = labWithPod();
  const never = Promise.withResolvers<void>();
  void lab.add({ ...web, beforeAnswered: () => never.promise });
  await eventually(async () => expect(await pendingOf(lab)).toBeDefined());
  await lab.engine.publishPendingStatuses(unused);
  expect(lab.publisher.published.size).toBe(1);
  expect(await pendingOf(lab)).toBeUndefined();
});

test("the status of an ADD is not published if the sandbox's DEL has begun before the answer", async () => {
  const lab = labWithPod();
  const beginDel = async (): Promise<void> => {
    lab.records.beginDel({ containerId: "c1", ifName: "eth0" }, new Date().toISOString());
  };
  await lab.add({ ...web, beforeAnswered: beginDel });
  await new Promise(setImmediate);
  expect([lab.publisher.published.size, lab.logger.at("warn")]).toEqual([0, []]);
});

test.each(["before", "after"])(
  "a DEL does not wait for the status of its ADD, and withdraws it: %s its write begins",
  async (when) => {
    const lab = labWithPod();
    const slow = Promise.withResolvers<void>();
    lab.publisher.gate = slow.promise;
    const del = async (): Promise<void> => {
      expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
    };
    await lab.add({ ...web, ...(when === "before" ? { beforeAnswered: del } : {}) });
    if (when === "after") await del();
    slow.resolve();
    await new Promise(setImmediate);
    expect([lab.publisher.published.size, lab.records.keys]).toEqual([0, []]);
    expect(lab.logger.at("warn")).toEqual([]);
  },
);

test("the status of a pod's newer sandbox wins, whichever write is slow", async () => {
  const lab = labWithPod();
  const slow = Promise.withResolvers<void>();
  lab.publisher.gate = slow.promise;
  await lab.add(web);
  await lab.del(web);
  lab.publisher.gate = Promise.resolve();
  lab.kernel.addNamespace("/run/netns/c2");
  const env = { CNI_CONTAINERID: "c2", CNI_NETNS: "/run/netns/c2" };
  await lab.add({ ...web, env });
  const newer = lab.publisher.published.get("default/web");
  slow.resolve();
  await new Promise(setImmediate);
  expect(lab.publisher.published.get("default/web")).toBe(newer);
  expect(lab.publisher.status("default/web")).toMatchObject([{ ips: ["10.0.0.2"] }]);
});

test("an ADD whose shim goes while its record is synced publishes no status: the pod may have a newer sandbox", async () => {
  const lab = labWithPod();
  const synced = Promise.withResolvers<void>();
  lab.records.becomesDurable = () => synced.promise;
  const host = lab.host();
  const adding = lab.add({ ...web, host });
  await eventually(async () => expect(await pendingOf(lab)).toBeDefined());
  await leave(host);
  synced.resolve();
  await expect(adding).rejects.toThrow("the shim has gone");
  expect(lab.publisher.published.size).toBe(0);
});

test.each([
  ["has gone", "the shim has gone", (_lab: EngineLab, host: FakeHost) => leave(host)],
  ["has detached the sandbox", "was not created", (lab: EngineLab) => lab.records.remove(sandbox)],
])("an ADD that waits for its status publishes none if its shim %s", async (_, error, happens) => {
  const lab = labWithPod({ config: beforeReply });
  const host = lab.host();
  const exec = host.exec.bind(host);
  host.exec = async (call) => {
    const outcome = await exec(call);
    if (call.env.CNI_COMMAND === "ADD") await happens(lab, host);
    return outcome;
  };
  const adding = lab.add({ ...web, host }).then(({ json }) => JSON.stringify(json), String);
  expect(await adding).toContain(error);
  expect(lab.journal).not.toContain("publish default/web");
});

test.each([
  ["before it", 1],
  ["during it", 0],
])(
  "an ADD that waits for its status heeds a sandbox of the pod that was attached %s, whatever the clock says",
  async (when, writes) => {
    const lab = labWithPod({ config: beforeReply });
    const other = labWithPod();
    await other.add(web);
    const { record } = (await other.records.load(sandbox))!;
    const clock =
      when === "before it"
        ? { createdAt: "2100-01-01T00:00:00.000Z", clockMs: 1e9 }
        : { createdAt: "2000-01-01T00:00:00.000Z" };
    const its = { ...record, containerId: "c2", ...clock };
    const attachOther = async (): Promise<void> =>
      void (await lab.records.create(its, teardownPlan(its, 60_000)));
    if (when === "before it") await attachOther();
    const host = lab.host();
    const exec = host.exec.bind(host);
    host.exec = async (call) => {
      if (when === "during it") await attachOther();
      return exec(call);
    };
    expect(await lab.add({ ...web, host })).toMatchObject({ exitCode: 0 });
    expect(lab.publisher.published.size).toBe(writes);
  },
);

test("publishPendingStatuses() drops the status of a sandbox whose DEL has begun", async () => {
  const lab = await unpublished();
  lab.plugins.script("ptp DEL", failed(7, "busy"));
  expect(await lab.del(web)).toMatchObject({ exitCode: 1 });
  lab.publisher.outcome = "settled";
  await lab.engine.publishPendingStatuses(unused);
  expect([lab.publisher.published.size, await pendingOf(lab)]).toEqual([0, undefined]);
});

test("an ADD that waits for its status succeeds even if it can neither publish nor record it; only the publisher knows it then", async () => {
  const lab = labWithPod({ config: beforeReply });
  lab.publisher.outcome = "pending";
  const before = labWithPod({ config: beforeReply });
  await before.add(web);
  const nth = before.records.writes.length + 1;
  lab.records.failWrite = { nth, error: new Error("no space left on device") };
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(lab.logger.lines).toContainEqual({
    level: "warn",
    message: "cannot record the network-status that is still to be published",
    fields: expect.objectContaining({ err: lab.records.failWrite.error }),
  });
  lab.publisher.outcome = "settled";
  await lab.engine.publishPendingStatuses(unused);
  expect(lab.publisher.published.size).toBe(0);
});

test("publishPendingStatuses() writes the status when it can, and keeps the rest of the record", async () => {
  const lab = await unpublished();
  const value = await pendingOf(lab);
  const { record, plan } = (await lab.records.load(sandbox))!;
  const { pendingStatus: _, ...withoutStatus } = record;
  await lab.engine.publishPendingStatuses(unused);
  expect(await pendingOf(lab)).toBe(value);
  lab.publisher.outcome = "settled";
  await lab.engine.publishPendingStatuses(unused);
  expect(lab.publisher.published.get("default/web")).toEqual({ [networkStatusAnnotation]: value });
  expect(await lab.records.load(sandbox)).toEqual({ record: withoutStatus, plan });
  const writes = lab.records.writes.length;
  await lab.engine.publishPendingStatuses(unused);
  expect(lab.records.writes).toHaveLength(writes);
});

test("publishPendingStatuses() skips a sandbox for which another process serves a call", async () => {
  const lab = await unpublished();
  lab.publisher.outcome = "settled";
  await lab.engine.publishPendingStatuses(async (containerId) => containerId === "c1");
  expect(await pendingOf(lab)).toBeDefined();
  expect(lab.publisher.published.size).toBe(0);
});

test("publishPendingStatuses() skips a sandbox for which this process serves a call", async () => {
  const lab = await unpublished();
  lab.publisher.outcome = "settled";
  const held = Promise.withResolvers<undefined>();
  lab.plugins.script("ptp CHECK", () => held.promise);
  const checked = lab.check(web);
  await eventually(() => expect(lab.plugins.of("ptp", "CHECK")).toHaveLength(1));
  await lab.engine.publishPendingStatuses(unused);
  expect(lab.publisher.published.size).toBe(0);
  held.resolve(undefined);
  expect(await checked).toMatchObject({ exitCode: 0 });
  await lab.engine.publishPendingStatuses(unused);
  expect(lab.publisher.published.size).toBe(1);
});

test("publishPendingStatuses() drops the status of a sandbox if the pod has a newer sandbox", async () => {
  const lab = await unpublished();
  lab.publisher.outcome = "settled";
  lab.kernel.addNamespace("/run/netns/c2");
  const env = { CNI_CONTAINERID: "c2", CNI_NETNS: "/run/netns/c2" };
  expect(await lab.add({ ...web, env })).toMatchObject({ exitCode: 0 });
  const now = lab.publisher.published.get("default/web");
  await lab.engine.publishPendingStatuses(unused);
  expect(lab.publisher.published.get("default/web")).toBe(now);
  expect(await pendingOf(lab)).toBeUndefined();
});

test("publishPendingStatuses() publishes nothing for a detached sandbox", async () => {
  const lab = await unpublished();
  await lab.del(web);
  lab.publisher.outcome = "settled";
  await lab.engine.publishPendingStatuses(unused);
  expect(lab.publisher.published.size).toBe(0);
});

/** Another process detaches c1, and attaches c2 with another address. */
async function replaceElsewhere(
  lab: EngineLab,
  changes: Partial<AttachmentRecord> = {},
): Promise<void> {
  const { record } = (await lab.records.load(sandbox))!;
  const { pendingStatus: _, ...attached } = JSON.parse(
    JSON.stringify(record).replaceAll("10.0.0.1", "10.0.0.9"),
  ) as AttachmentRecord;
  lab.records.latestOf = () => sandbox;
  await lab.records.remove(sandbox);
  const its = { ...attached, containerId: "c2", clockMs: record.clockMs + 1, ...changes };
  lab.records.put(its, teardownPlan(its, 60_000));
}

/** Another process attaches c2; its DEL of c1 has not begun. */
async function attachElsewhere(lab: EngineLab): Promise<void> {
  const { record } = (await lab.records.load(sandbox))!;
  const { pendingStatus: _, ...attached } = record;
  lab.records.latestOf = () => sandbox;
  const its = { ...attached, containerId: "c2", clockMs: record.clockMs + 1 };
  lab.records.put(its, teardownPlan(its, 60_000));
}

test("a status that was not written before the answer is not sent after it if another process has attached a newer sandbox", async () => {
  const lab = labWithPod({ config: beforeReply });
  let isCurrent: PublishOptions["isCurrent"];
  lab.publisher.publish = async (_pod, _annotations, options) => {
    isCurrent = options?.isCurrent;
    return "pending";
  };
  await lab.add(web);
  expect(await isCurrent?.()).toBe(true);
  await attachElsewhere(lab);
  expect(await isCurrent?.()).toBe(false);
});

test("publishPendingStatuses() drops the status of a sandbox if another process has attached a newer one", async () => {
  const lab = await unpublished();
  lab.publisher.outcome = "settled";
  await attachElsewhere(lab);
  await lab.engine.publishPendingStatuses(unused);
  expect([lab.publisher.published.size, await pendingOf(lab)]).toEqual([0, undefined]);
});

const owedByOther = { pendingStatus: { [networkStatusAnnotation]: '[{"name":"default-net"}]' } };

test("a status that another process owes a newer sandbox is published, although this process attached an earlier one", async () => {
  const lab = labWithPod();
  await lab.add(web);
  await replaceElsewhere(lab, owedByOther);
  await lab.engine.publishPendingStatuses(unused);
  expect(lab.publisher.status("default/web")).toEqual([{ name: "default-net" }]);
  expect(await pendingOf(lab, { containerId: "c2", ifName: "eth0" })).toBeUndefined();
});

test("an owed status is not sent any more if another process has replaced the sandbox meanwhile", async () => {
  const lab = await unpublished();
  lab.publisher.outcome = "settled";
  const slow = Promise.withResolvers<void>();
  lab.publisher.gate = slow.promise;
  const publishing = lab.engine.publishPendingStatuses(unused);
  await new Promise(setImmediate);
  await replaceElsewhere(lab, owedByOther);
  slow.resolve();
  await publishing;
  expect(lab.journal).not.toContain("publish default/web");
});

test.each([
  ["is owed again", true],
  ["stays if its ADD still runs, which publishes it", false],
])(
  "if an owed status is applied after that of a sandbox from another process, the latter %s",
  async (_, isAttached) => {
    const lab = await unpublished();
    lab.publisher.outcome = "settled";
    const late = Promise.withResolvers<void>();
    lab.publisher.applied = late.promise;
    const publishing = lab.engine.publishPendingStatuses(unused);
    await new Promise(setImmediate);
    await replaceElsewhere(lab);
    const key = { containerId: "c2", ifName: "eth0" };
    const { record } = (await lab.records.load(key))!;
    if (!isAttached) {
      const attachments = record.attachments.map(({ result: _result, ...each }) => ({
        ...each,
        state: "attempted" as const,
      }));
      lab.records.put({ ...record, attachments }, teardownPlan({ ...record, attachments }, 60_000));
    }
    late.resolve();
    await publishing;
    const [shown] = lab.publisher.status("default/web");
    expect(shown).toMatchObject({ ips: [isAttached ? "10.0.0.9" : "10.0.0.1"] });
    expect(await pendingOf(lab, key)).toBeUndefined();
  },
);

test("the status of a sandbox in use by another process's call is owed again when that has ended", async () => {
  const lab = await unpublished();
  lab.publisher.outcome = "settled";
  const late = Promise.withResolvers<void>();
  lab.publisher.applied = late.promise;
  let asked = 0;
  const isInUse = async (id: string): Promise<boolean> => id === "c2" && ++asked < 3;
  const publishing = lab.engine.publishPendingStatuses(isInUse);
  await new Promise(setImmediate);
  await replaceElsewhere(lab);
  late.resolve();
  await publishing;
  expect(lab.publisher.status("default/web")).toMatchObject([{ ips: ["10.0.0.9"] }]);
});

test("nothing is owed again if another process has detached the pod's only sandbox meanwhile", async () => {
  const lab = await unpublished();
  lab.publisher.outcome = "settled";
  const late = Promise.withResolvers<void>();
  lab.publisher.applied = late.promise;
  const publishing = lab.engine.publishPendingStatuses(unused);
  await new Promise(setImmediate);
  await lab.records.remove(sandbox);
  late.resolve();
  await publishing;
  expect([lab.records.keys, lab.logger.at("warn")]).toEqual([[], []]);
});

test("the status of a sandbox in use for longer than five seconds is left as it is", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const lab = await unpublished();
  lab.publisher.outcome = "settled";
  const late = Promise.withResolvers<void>();
  lab.publisher.applied = late.promise;
  let asked = 0;
  const isInUse = async (id: string): Promise<boolean> => id === "c2" && ++asked > 0;
  const publishing = lab.engine.publishPendingStatuses(isInUse);
  await new Promise(setImmediate);
  await replaceElsewhere(lab);
  late.resolve();
  await vi.advanceTimersByTimeAsync(5100);
  await publishing;
  expect([asked, lab.publisher.status("default/web")]).toMatchObject([51, [{ ips: ["10.0.0.1"] }]]);
});

test("a status is published although its pause cannot be recorded, which is logged", async () => {
  const lab = await unpublished();
  lab.publisher.outcome = "settled";
  lab.publisher.pause = { milliseconds: 60_000, isForAll: false };
  const err = new Error("no space left on device");
  lab.records.failWrite = { nth: lab.records.writeCount + 1, error: err };
  await lab.engine.publishPendingStatuses(unused);
  expect(lab.publisher.published.size).toBe(1);
  expect(lab.logger.lines.at(-1)).toMatchObject({
    level: "warn",
    message: "cannot record when a status is to be sent again",
    fields: { err },
  });
});

test("an owed status that is never accepted does not keep the others from being published", async () => {
  const lab = await unpublished();
  lab.source.addPod({ name: "db", uid: "uid-2", annotations: {} });
  lab.kernel.addNamespace("/run/netns/c2");
  const env = { CNI_CONTAINERID: "c2", CNI_NETNS: "/run/netns/c2" };
  await lab.add({ pod: "default/db", env });
  const { publish } = lab.publisher;
  const never = new Promise<"pending">(() => undefined);
  lab.publisher.outcome = "settled";
  lab.publisher.publish = (pod, ...rest) =>
    pod.name === "web" ? never : publish.call(lab.publisher, pod, ...rest);
  void lab.engine.publishPendingStatuses(unused);
  await eventually(() => expect(lab.publisher.published.has("default/db")).toBe(true));
  await eventually(async () =>
    expect(await pendingOf(lab, { containerId: "c2", ifName: "eth0" })).toBeUndefined(),
  );
});

test.each([
  ["rejects the status", { milliseconds: 120_000, isForAll: false }, "default/db"],
  ["has asked for a pause", { milliseconds: 120_000, isForAll: true }, undefined],
])(
  "if the API server %s, later processes send it only after the pause",
  async (_, pause, meanwhile) => {
    const lab = labWithPod({ config: beforeReply });
    lab.publisher.outcome = "pending";
    lab.publisher.pause = pause;
    void lab.add({ ...web, beforeAnswered: () => new Promise(() => undefined) });
    await eventually(async () => expect(await pendingOf(lab)).toBeDefined());
    expect(lab.publisher.requests).toEqual(["default/web"]);
    lab.publisher.pause = undefined;
    lab.source.addPod({ name: "db", uid: "uid-2", annotations: {} });
    lab.kernel.addNamespace("/run/netns/c2");
    const env = { CNI_CONTAINERID: "c2", CNI_NETNS: "/run/netns/c2" };
    await lab.add({ pod: "default/db", env });
    lab.publisher.outcome = "settled";
    const sentBy = async (): Promise<readonly string[]> => {
      lab.publisher.requests.length = 0;
      await lab.engine.publishPendingStatuses(unused);
      return lab.publisher.requests;
    };
    lab.advance(119_000);
    expect(await sentBy()).toEqual(meanwhile === undefined ? [] : [meanwhile]);
    lab.advance(2000);
    expect(await sentBy()).toContain("default/web");
    expect((await lab.records.load(sandbox))?.record).not.toHaveProperty("statusPause");
  },
);

test.each<[string, (pause: StatusPause) => StatusPause]>([
  ["another boot", (pause) => ({ ...pause, bootId: "another" })],
  ["a time that no process asks for", (pause) => ({ ...pause, clockMs: 1e9 })],
])("a pause of %s does not keep a status from being sent", async (_, of) => {
  const lab = await unpublished();
  const { record, plan } = (await lab.records.load(sandbox))!;
  const statusPause = of({
    bootId: lab.bootId,
    clockMs: 60_000,
    milliseconds: 60_000,
    isForAll: true,
  });
  lab.records.put({ ...record, statusPause }, plan);
  lab.publisher.outcome = "settled";
  await lab.engine.publishPendingStatuses(unused);
  expect(await pendingOf(lab)).toBeUndefined();
});

test("each process that publishes a rejected status again doubles its pause, up to an hour", async () => {
  const lab = await unpublished();
  lab.publisher.pause = { milliseconds: 60_000, isForAll: false };
  const sentAt: number[] = [];
  for (let minute = 0; minute < 300; minute++) {
    const before = lab.publisher.requests.length;
    await lab.engine.publishPendingStatuses(unused);
    if (lab.publisher.requests.length > before) sentAt.push(minute);
    lab.advance(60_000);
  }
  const waits = sentAt.map((at, i) => at - (sentAt[i - 1] ?? 0));
  expect(waits).toEqual([0, 1, 2, 4, 8, 16, 32, 60, 60, 60]);
  expect(await pendingOf(lab)).toBeDefined();
});
