import { expect, test } from "vitest";
import { teardownPlan } from "#engine/del/planned-dels.ts";
import { type AttachmentRecord, begunTeardown, isSame } from "#engine/record/record.ts";
import { FakeRecords } from "#engine/testing/fake-records.ts";
import { latestSandbox } from "./latest-sandbox.ts";

const pod = { namespace: "default", name: "web", uid: "u1" };
const key = { containerId: "c1", ifName: "eth0" };

/** The record of the sandbox c1 of the pod, with changes. */
function recordOf(changes: Partial<AttachmentRecord> = {}): AttachmentRecord {
  const of = { ...key, netns: "/run/netns/x", cniVersion: "1.0.0", pod, attachments: [] };
  const at = { createdAt: "2026-01-01T00:00:00Z", clockMs: 100, bootId: "b1" };
  return { ...of, ...at, ...changes };
}

/** What decides, with records in the order of their creation. */
function depsWith(...created: AttachmentRecord[]) {
  const records = new FakeRecords([]);
  for (const record of created) records.put(record, teardownPlan(record, 60_000));
  return { records, bootId: () => "b1", clock: () => 200, now: () => "2026-01-01T00:00:00.1Z" };
}

const later = "2100-01-01T00:00:00Z";

test.each<[other: string, changes: Partial<AttachmentRecord>, isLatestOne: boolean]>([
  ["an older one", { clockMs: 99, createdAt: later }, true],
  ["a newer one", { clockMs: 101 }, false],
  ["a newer one whose DEL has begun", { clockMs: 101, teardown: begunTeardown(later) }, false],
  ["a newer one of an unknown boot", { bootId: "", clockMs: 101, createdAt: later }, false],
  [
    "a newer one, whose process read another boot ID",
    { bootId: "b0", clockMs: 101, createdAt: later },
    false,
  ],
  [
    "one of an earlier boot, before the clock was set back",
    { bootId: "b0", createdAt: later },
    true,
  ],
  [
    "one of an earlier boot, by a wrong clock newer",
    { bootId: "b0", createdAt: later, clockMs: 201 },
    true,
  ],
  ["a newer one of another pod of that name", { clockMs: 101, pod: { ...pod, uid: "u2" } }, true],
  ["an older one, created later by this process", { clockMs: 99 }, true],
])("a sandbox beside %s", async (_, changes, isLatestOne) => {
  const [record, other] = [recordOf(), recordOf({ containerId: "c2", ...changes })];
  const deps = depsWith(record, other);
  expect((await latestSandbox(deps, pod))?.containerId).toBe(isLatestOne ? "c1" : "c2");
});

test("of two interfaces of one container, the newer one is the latest", async () => {
  const [eth0, eth1] = [recordOf(), recordOf({ ifName: "eth1", clockMs: 101 })];
  expect(await latestSandbox(depsWith(eth1, eth0), pod)).toEqual(eth1);
});

test("a newer sandbox whose record is unusable does not count", async () => {
  const record = recordOf();
  const deps = depsWith(record, recordOf({ containerId: "c2", clockMs: 101 }));
  deps.records.damage({ ...key, containerId: "c2" }, "record");
  expect(await latestSandbox(deps, pod)).toEqual(record);
});

test.each([
  [key, { ...key }, true],
  [key, { ...key, ifName: "eth1" }, false],
  [key, { ...key, containerId: "c2" }, false],
  [key, undefined, false],
  [undefined, key, false],
  [undefined, undefined, false],
])("isSame() of %j and %j", (a, b, same) => expect(isSame(a, b)).toBe(same));
