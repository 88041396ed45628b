import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import type { AttachmentRecord } from "#engine/record.ts";
import { formatRecord, parseRecord } from "./record-file.ts";

const where = { path: "/state/c1@eth0.json", key: { containerId: "c1", ifName: "eth0" } };

const attachment = {
  displayName: "default/a",
  isDefault: true,
  ifName: "eth0",
  conf: { name: "n", plugins: [{ type: "ptp" }] },
  cniArgs: [["IgnoreUnknown", "1"]] as const,
  capabilityArgs: {},
  searchPath: ["/opt/cni/bin"],
};
const sandbox = {
  ...where.key,
  netns: "/run/netns/x",
  cniVersion: "1.0.0",
  createdAt: "2026-01-01T00:00:00Z",
};
const result = { cniVersion: "1.0.0" };

/** A record's file of any schema. */
function fileOf(schema: number, record: object): string {
  const body = JSON.stringify(record);
  const sum = createHash("sha256").update(body).digest("hex");
  return `{"schema":${schema},"sha256":"${sum}","record":${body}}\n`;
}

test("formatRecord() and parseRecord() keep everything that a record can have", () => {
  const record: AttachmentRecord = {
    ...sandbox,
    pod: { namespace: "default", name: "web", uid: "u" },
    bootId: "b1",
    attachments: [
      { ...attachment, state: "attached", result },
      { ...attachment, state: "attempted", defaultRoute: ["10.0.0.1"] },
      { ...attachment, state: "planned" },
    ],
    pendingStatus: { "k8s.v1.cni.cncf.io/network-status": "[]" },
    teardown: {
      firstFailedAt: "2026-01-01T00:00:00Z",
      failedAt: "2026-01-02T00:00:00Z",
      attempts: 2,
      lastError: "busy",
    },
  };
  expect(parseRecord(formatRecord(record), where)).toEqual(record);
});

test("parseRecord() reads the first schema: its boot is not known, and everything may have been attempted", () => {
  const attachments = [{ ...attachment, result }, attachment];
  expect(parseRecord(fileOf(1, { ...sandbox, attachments }), where)).toEqual({
    ...sandbox,
    bootId: "",
    attachments: [
      { ...attachment, result, state: "attached" },
      { ...attachment, state: "attempted" },
    ],
  });
});

test.each([
  ["a newer schema", fileOf(3, sandbox), /it has schema 3, this version reads 1 and 2/],
  [
    "a field of the second schema in the first",
    fileOf(1, { ...sandbox, attachments: [], bootId: "" }),
    /bootId/,
  ],
  ["no boot in the second schema", fileOf(2, { ...sandbox, attachments: [] }), /bootId/],
  [
    "an unknown state",
    fileOf(2, { ...sandbox, bootId: "", attachments: [{ ...attachment, state: "x" }] }),
    /state/,
  ],
])("parseRecord() refuses %s", (_, text, message) => {
  expect(() => parseRecord(text, where)).toThrow(expect.objectContaining({ code: 6 }));
  expect(() => parseRecord(text, where)).toThrow(message);
});
