import { expect, test } from "vitest";
import type { AttachmentRecord } from "#engine/record/record.ts";
import type { TeardownPlan } from "#engine/record/teardown-plan.ts";
import { type JsonObject, parseExactly } from "#lib/json.ts";
import { encodePlan } from "#protocol/plan.ts";
import { formatRecord, parseRecord, planIn } from "./record-file.ts";
import { attachment, key, sandbox } from "./testing/sample-record.ts";

const where = { path: "/state/c1@eth0.record", key };

const plan: TeardownPlan = { bootId: "b1", attempted: 2, steps: [] };

/** A file with a record of any schema. */
function fileOf(schema: string, record: object): Buffer {
  const head = { ...key, bootId: "b1", attempted: 0, calls: [] };
  return encodePlan(head, { schema, text: JSON.stringify(record) });
}

test("parseRecord() keeps the digits of integers beyond 2^53 in configuration and result", () => {
  const long = parseExactly(
    '{"a":9007199254740993,"b":[{"c":-18446744073709551615}]}',
  ) as JsonObject;
  const kept = { conf: long, result: long, capabilityArgs: long };
  const record: AttachmentRecord = {
    ...sandbox,
    bootId: "b1",
    attachments: [{ ...attachment, ...kept, state: "attached" }],
  };
  const read = parseRecord(formatRecord(record, plan), where).record;
  expect(JSON.stringify(read)).toBe(JSON.stringify(record));
});

/** Has every member that a record may have. */
const full: AttachmentRecord = {
  ...sandbox,
  listName: "n",
  netnsProcess: "7-net:[1]",
  pod: { namespace: "default", name: "web", uid: "u" },
  bootId: "b1",
  attachments: [
    {
      ...attachment,
      ...{ state: "attached", result: { cniVersion: "1.0.0" } },
      userSpaceInterfaces: ["net1"],
      addresses: { net1: ["10.0.0.7"] },
      ignoredRequests: [
        { key: "mac", asked: "02:00:00:00:00:01", got: "02:00:00:00:00:02" },
        { key: "bandwidth", asked: "{}" },
      ],
    },
    {
      ...attachment,
      state: "owed",
      defaultRoute: ["10.0.0.1"],
      selection: { namespace: "default", name: "a", ips: ["10.0.0.5"] },
      definition: "8RzX1h0Zq3vK2dNc",
      failedAdd: { position: 1, code: 999, message: "invalid VLAN ID 5000" },
      teardown: { firstFailedAt: "f", failedAt: "f", attempts: 1, lastError: "busy" },
    },
    {
      ...attachment,
      state: "planned",
      device: { resourceName: "vendor.example/nic", id: "0000:01:00.0", source: "checkpoint" },
    },
  ],
  addEnded: true,
  hasLostUpdate: true,
  pendingStatus: { "k8s.v1.cni.cncf.io/network-status": "[]" },
  teardown: {
    firstFailedAt: "2026-01-01T00:00:00Z",
    missingSince: { bootId: "b1", clockMs: 1235 },
    failedAt: "2026-01-02T00:00:00Z",
    attempts: 2,
    lastError: "busy",
    reason: "PluginMissing",
  },
};

test("formatRecord(), parseRecord() and planIn() keep every field of a record and its plan", () => {
  const file = formatRecord(full, plan);
  expect(parseRecord(file, where)).toEqual({ record: full, plan });
  expect(planIn(file, key)).toEqual(plan);
});

test("parseRecord() says of no whole record that an update of it was lost", () => {
  const attachments = [{ ...attachment, state: "planned" as const }];
  const record = { ...sandbox, bootId: "b1", attachments };
  expect(parseRecord(formatRecord(record, plan), where).record).toEqual(record);
});

test.each(["1", "3"])("parseRecord() rejects schema %s, planIn() reads the plan", (schema) => {
  const file = fileOf(schema, sandbox);
  expect(() => parseRecord(file, where)).toThrow(`it has schema ${schema}, this version reads 2`);
  expect(planIn(file, key)).toEqual({ bootId: "b1", attempted: 0, steps: [] });
});

const usable = { ...sandbox, bootId: "", attachments: [] };

test.each<[string, Buffer, RegExp]>([
  ["no bootId", fileOf("2", { ...usable, bootId: undefined }), /bootId/],
  [
    "an unknown state",
    fileOf("2", { ...usable, attachments: [{ ...attachment, state: "x" }] }),
    /state/,
  ],
  [
    "the key of another interface",
    fileOf("2", { ...usable, ifName: "eth1" }),
    /belongs to interface eth1 of container c1/,
  ],
  ["an unknown member", fileOf("2", { ...usable, extra: 1 }), /extra/],
  ["null for an absent member", fileOf("2", { ...usable, pod: null }), /pod/],
  [
    "CNI_ARGS that are not pairs",
    fileOf("2", { ...usable, attachments: [{ ...attachment, cniArgs: [["a"]] }] }),
    /attachments\[0\]\.cniArgs\[0\]: must be a pair of strings, got \["a"\]/,
  ],
  ["a plan alone", encodePlan({ ...key, bootId: "", attempted: 0, calls: [] }), /but no record/],
  ["an array for the object", fileOf("2", []), /must be an object/],
  [
    "invalid JSON",
    encodePlan({ ...key, bootId: "", attempted: 0, calls: [] }, { schema: "2", text: "{" }),
    /JSON/,
  ],
])("parseRecord() refuses a record with %s", (_, file, message) => {
  expect(() => parseRecord(file, where)).toThrow(expect.objectContaining({ code: 6 }));
  expect(() => parseRecord(file, where)).toThrow(message);
});

/** The checked members of a record, by path; what plugins and pods have written is kept unchanged. */
function members(value: unknown, path: readonly (string | number)[] = []): (typeof path)[] {
  const own = path.length === 0 ? [] : [path];
  const isOpaque = ["conf", "capabilityArgs", "result", "selection"].includes(String(path.at(-1)));
  if (typeof value !== "object" || value === null || isOpaque) return own;
  const keys = Array.isArray(value) ? value.keys() : Object.keys(value);
  return [...own, ...[...keys].flatMap((key) => members(Object(value)[key], [...path, key]))];
}

function withMember(path: readonly (string | number)[], changed: unknown): Buffer {
  const copy = structuredClone(full);
  const owner = path.slice(0, -1).reduce((each, key) => Object(each)[key], copy as unknown);
  Object(owner)[path.at(-1) ?? ""] = changed;
  return fileOf("2", copy);
}

test.each(members(full).map((path) => [path.join("."), path] as const))(
  "parseRecord() refuses a record whose member %s has the wrong type",
  (_, path) => {
    const value = path.reduce((each, key) => Object(each)[key], full as unknown);
    const file = withMember(path, typeof value === "string" ? 1 : "text");
    expect(() => parseRecord(file, where)).toThrow(
      expect.objectContaining({ code: 6, message: expect.stringContaining(String(path.at(-1))) }),
    );
  },
);

test.each<[(string | number)[], string]>([
  [["containerId"], ""],
  [["attachments", 0, "ifName"], ""],
  [["teardown", "reason"], "Busy"],
])("parseRecord() refuses a record whose member %j is %j", (path, value) => {
  expect(() => parseRecord(withMember(path, value), where)).toThrow(
    /must (not be empty|be one of)/,
  );
});

test("parseRecord() takes an error that is not the content's for no damage", () => {
  const file = formatRecord(full, plan);
  expect(() => parseRecord(file, { ...where, key: undefined as never })).toThrow(TypeError);
});
