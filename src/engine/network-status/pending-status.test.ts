import { expect, test } from "vitest";
import { EngineLab, sandbox } from "#engine/testing/engine-lab.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";

const web = { pod: "default/web" };
const unused = async (): Promise<boolean> => false;

/** A pod that is attached, and whose status could not be written in time. */
async function unpublished(): Promise<EngineLab> {
  const lab = new EngineLab();
  lab.source.addPod({ name: "web", annotations: {} });
  lab.publisher.outcome = "pending";
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  return lab;
}

const pendingOf = async (lab: EngineLab, key = sandbox): Promise<string | undefined> =>
  (await lab.records.load(key))?.pendingStatus?.[networkStatusAnnotation];

test("ADD succeeds if it cannot publish the status, and records the pending status", async () => {
  const lab = await unpublished();
  expect(JSON.parse((await pendingOf(lab)) ?? "[]")).toMatchObject([{ name: "default-net" }]);
  expect((await lab.records.load(sandbox))?.attachments[0]?.result).toBeDefined();
});

test("ADD records no pending status if it published the status in time", async () => {
  const lab = new EngineLab();
  lab.source.addPod({ name: "web", annotations: {} });
  await lab.add(web);
  expect((await lab.records.load(sandbox))?.pendingStatus).toBeUndefined();
});

test("ADD succeeds even if it can neither publish nor record the status", async () => {
  const lab = new EngineLab();
  lab.source.addPod({ name: "web", annotations: {} });
  lab.publisher.outcome = "pending";
  const before = new EngineLab();
  before.source.addPod({ name: "web", annotations: {} });
  await before.add(web);
  const nth = before.records.writes.length + 1;
  lab.records.failWrite = { nth, error: new Error("no space left on device") };
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(lab.logger.at("warn")).toContain(
    "cannot record the network-status that is still to be published",
  );
});

test("publishPendingStatuses() writes the status when it can, and keeps the rest of the record", async () => {
  const lab = await unpublished();
  const value = await pendingOf(lab);
  const { pendingStatus: _, ...record } = (await lab.records.load(sandbox)) ?? {};
  const plan = await lab.records.loadPlan(sandbox);
  await lab.engine.publishPendingStatuses(unused);
  expect(await pendingOf(lab)).toBe(value);
  lab.publisher.outcome = "settled";
  await lab.engine.publishPendingStatuses(unused);
  expect(lab.publisher.published.get("default/web")).toEqual({ [networkStatusAnnotation]: value });
  expect(await lab.records.load(sandbox)).toEqual(record);
  expect(await lab.records.loadPlan(sandbox)).toEqual(plan);
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
