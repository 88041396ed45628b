import { expect, test } from "vitest";
import type { Pod } from "#engine/ports/cluster.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { attachment, sandbox } from "#records/testing/sample-record.ts";
import { isStillOpen } from "./failed-add.ts";

const pod = { namespace: "default", name: "web", uid: "1", annotations: {} };
const next = { ...pod, uid: "2" };
const failedAt = "2026-01-01T00:05:00Z";
const of = (minute: number, changes: Partial<AttachmentRecord> = {}): AttachmentRecord => ({
  ...{ ...sandbox, bootId: "b", pod, createdAt: `2026-01-01T00:0${minute}:00Z` },
  attachments: [{ ...attachment, state: "attached" }],
  ...changes,
});

test.each<[string, AttachmentRecord[], Pod[] | undefined, boolean]>([
  ["a pod without a record", [], [pod], true],
  ["a pod that was attached since", [of(6)], [pod], false],
  ["a pod whose earlier sandbox has a record", [of(4)], [pod], true],
  [
    "a pod whose record is of an ADD that has not ended",
    [of(6, { attachments: [{ ...attachment, state: "attempted" }] })],
    [pod],
    true,
  ],
  ["another pod that was attached since", [of(6, { pod: { ...pod, name: "db" } })], [pod], true],
  ["another pod of its name that was attached since", [of(6, { pod: next })], [pod], true],
  ["a pod whose successor has its name", [], [next], false],
  ["a pod that is gone", [], [], false],
  ["a pod where plexusd watches none", [], undefined, true],
])("the failed ADD of %s", (...row) => {
  const [, records, pods, isOpen] = row;
  expect(isStillOpen(records, pods)(pod, failedAt)).toBe(isOpen);
});
