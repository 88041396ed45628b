import { expect, onTestFinished, test, vi } from "vitest";
import { sampleMax } from "#engine/ports/records.ts";
import { EngineLab } from "#engine/testing/engine-lab.ts";
import type { PaymentOptions } from "./pending-payments.ts";

const unused = async (): Promise<boolean> => false;

/** Pods whose sandboxes c1, c2, c3 owe a status, and one of c4 that owes none. */
async function owing(): Promise<EngineLab> {
  const lab = new EngineLab();
  lab.publisher.outcome = "pending";
  for (const n of [1, 2, 3, 4]) {
    if (n === 4) lab.publisher.outcome = "settled";
    lab.source.addPod({ name: `p${n}`, uid: `uid-${n}`, annotations: {} });
    lab.kernel.addNamespace(`/run/netns/c${n}`);
    const env = { CNI_CONTAINERID: `c${n}`, CNI_NETNS: `/run/netns/c${n}` };
    expect(await lab.add({ pod: `default/p${n}`, env })).toMatchObject({ exitCode: 0 });
  }
  lab.publisher.requests.length = 0;
  return lab;
}

test.each<[random: number, PaymentOptions, order: string[]]>([
  [0, {}, ["c1", "c2", "c3"]],
  [0.34, {}, ["c2", "c3", "c1"]],
  [0.99, { others: "some" }, ["c3", "c1", "c2"]],
  [0.99, { first: "c2" }, ["c2", "c3", "c1"]],
  [0.34, { first: "c4" }, ["c2", "c3", "c1"]],
])("the owed statuses come in random rotation (%d, %j)", async (random, options, order) => {
  const lab = await owing();
  vi.spyOn(Math, "random").mockReturnValue(random);
  onTestFinished(() => void vi.restoreAllMocks());
  const asked: string[] = [];
  await lab.engine.publishPendingStatuses(async (containerId) => {
    asked.push(containerId);
    return true;
  }, options);
  expect([asked, lab.publisher.requests]).toEqual([order, []]);
});

test("the status of an answered call is sent first, while its shim may still run", async () => {
  const lab = await owing();
  const asked: string[] = [];
  await lab.engine.publishPendingStatuses(
    async (containerId) => {
      asked.push(`${containerId} ${lab.publisher.requests.length}`);
      return containerId !== "c2" || asked.filter((each) => each === "c2 1").length === 1;
    },
    { own: { containerId: "c2", ifName: "eth0" } },
  );
  expect(lab.publisher.requests).toHaveLength(1);
  expect(asked.filter((each) => each.startsWith("c2"))).toEqual(["c2 1", "c2 1"]);
});

test("only some of the records are read if that is asked for, else all that owe a status", async () => {
  const lab = await owing();
  const list = vi.spyOn(lab.records, "list");
  await lab.engine.publishPendingStatuses(unused);
  await lab.engine.publishPendingStatuses(unused, { others: "some" });
  expect(list.mock.calls).toEqual([[{ containing: '"pendingStatus"' }], [{ atMost: sampleMax }]]);
});

test("no other record is read if that is asked for", async () => {
  const lab = await owing();
  const list = vi.spyOn(lab.records, "list");
  const own = { containerId: "c2", ifName: "eth0" };
  await lab.engine.publishPendingStatuses(unused, { own, others: "none" });
  expect(list).not.toHaveBeenCalled();
  expect(lab.publisher.requests).toHaveLength(1);
});

test.each<[what: string, "settled" | "pending", AbortSignal | undefined, requests: number]>([
  ["no limit, all are sent, accepted or not", "pending", undefined, 3],
  ["a limit, all are sent that are accepted", "settled", new AbortController().signal, 3],
  [
    "a limit, none is sent after one that is not accepted",
    "pending",
    new AbortController().signal,
    1,
  ],
  ["a limit that is over, none is sent", "settled", AbortSignal.abort(), 0],
])("with %s", async (...row) => {
  const [, outcome, signal, requests] = row;
  const lab = await owing();
  lab.publisher.outcome = outcome;
  await lab.engine.publishPendingStatuses(unused, signal === undefined ? {} : { signal });
  expect(lab.publisher.requests).toHaveLength(requests);
});

test("a status that is being sent is not sent a second time", async () => {
  const lab = await owing();
  const publish = vi.spyOn(lab.publisher, "publish");
  const slow = Promise.withResolvers<void>();
  lab.publisher.gate = slow.promise;
  const payments = [unused, unused].map((each) => lab.engine.publishPendingStatuses(each));
  await vi.waitFor(() => expect(publish).toHaveBeenCalledTimes(3));
  slow.resolve();
  await Promise.all(payments);
  expect(publish).toHaveBeenCalledTimes(3);
});
