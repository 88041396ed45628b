import { expect, test } from "vitest";
import { type AttachmentRecord, byAge } from "./record.ts";

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
