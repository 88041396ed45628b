import { expect, test } from "vitest";
import { mirrorAnnotation } from "#npwg/object-meta.ts";
import { type AttachmentRecord, byAge, isOfPod, type RecordedAttachment } from "./record.ts";

const record = (keys: Partial<AttachmentRecord>): AttachmentRecord => ({
  ...{ containerId: "c".repeat(64), ifName: "eth0", netns: "", cniVersion: "1.0.0" },
  ...{ createdAt: "2026-01-01T00:00:00Z", clockMs: 0, bootId: "b1", attachments: [], ...keys },
});

test.each<[string, older: Partial<AttachmentRecord>, newer: Partial<AttachmentRecord>]>([
  ["by the clock in one boot", { clockMs: 1, createdAt: "2026-01-03T00:00:00Z" }, { clockMs: 2 }],
  ["by clock and date", { clockMs: 1 }, { clockMs: 2, bootId: "b0" }],
  ["by the date in earlier boots", { clockMs: 9, bootId: "b0" }, { bootId: "b" }],
  ["by the present boot", { clockMs: 1, bootId: "b0", createdAt: "2026-01-03T00:00:00Z" }, {}],
])("byAge() sorts records %s", (_, older, newer) => {
  const first = record(older);
  const last = record({ clockMs: 2, createdAt: "2026-01-02T00:00:00Z", ...newer });
  expect([first, last].toSorted(byAge("b1"))).toEqual([first, last]);
  expect([last, first].toSorted(byAge("b1"))).toEqual([first, last]);
});

test.each([
  ["it has the UID", { uid: "u1" }, true],
  ["it has another UID", { uid: "u2" }, false],
  ["no UID is known", {}, true],
  ["it has another name", { name: "db", uid: "u1" }, false],
  ["it is in another namespace", { namespace: "other", uid: "u1" }, false],
  ["it mirrors the runtime's pod", { uid: "u2", annotations: { [mirrorAnnotation]: "r1" } }, true],
  ["it mirrors another pod", { uid: "u2", annotations: { [mirrorAnnotation]: "r2" } }, false],
])("isOfPod() of a pod if %s", (_, keys, expected) => {
  const pod = { namespace: "default", name: "web", uid: "u1" };
  const attachment = { cniArgs: [["K8S_POD_UID", "r1"]] } as unknown as RecordedAttachment;
  const of = record({ pod, attachments: [attachment] });
  expect(isOfPod(of, { namespace: "default", name: "web", ...keys })).toBe(expected);
  expect(isOfPod(record({}), { namespace: "default", name: "web", ...keys })).toBe(false);
});
