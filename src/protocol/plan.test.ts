import { crc32 } from "node:zlib";
import { expect, test } from "vitest";
import { encodeFrame, FrameType, ProtocolError } from "./frame.ts";
import { type ExecMessage, encodeExec } from "./messages.ts";
import { decodePlan, decodeRecord, encodePlan } from "./plan.ts";

const key = { containerId: "c1", ifName: "eth0" };

function call(group: number, type: string): ExecMessage {
  return {
    group,
    type,
    searchPath: ["/opt/cni/bin", "/usr/lib/cni"],
    timeoutMs: 60_000,
    stdin: '{"name":"n","dns":{"domain":"ö"}}',
    env: { CNI_COMMAND: "DEL", CNI_NETNS: "/run/netns/x" },
  };
}

const calls = [call(1, "tuning"), call(1, "bridge"), call(0, "ptp")];
const plan = { ...key, bootId: "b1", attempted: 1, calls };
const record = { schema: "2", text: '{"ö":1}' };
const file = encodePlan(plan, record);

/** A plan's file with any head and end around its calls and its record. */
function planFile(parts: { head?: string[]; end?: string[]; body?: Buffer[] }): Buffer {
  const { head = ["3", "c1", "eth0", "b1", "1"], body = calls.map(encodeExec) } = parts;
  const last = encodeFrame(FrameType.Record, [record.schema, record.text]);
  const before = Buffer.concat([encodeFrame(FrameType.Plan, head), ...body, last]);
  const sum = crc32(before).toString(16).padStart(8, "0");
  const end = parts.end ?? [String(body.length), sum];
  return Buffer.concat([before, encodeFrame(FrameType.PlanEnd, end)]);
}

test("encodePlan() and decodePlan() are each other's inverse", () => {
  expect(decodePlan(file)).toEqual(plan);
  expect(decodeRecord(file)).toEqual({ ...record, isOutdated: false });
  const empty = { ...plan, calls: [] };
  expect(decodePlan(encodePlan(empty, record))).toEqual(empty);
  expect(planFile({})).toEqual(file);
  expect(decodePlan(encodePlan(plan))).toEqual(plan);
});

/** A plan's file of an earlier release, which has no record. */
function oldFile(head: string[]): Buffer {
  const body = Buffer.concat([encodeFrame(FrameType.Plan, head), ...calls.map(encodeExec)]);
  const sum = crc32(body).toString(16).padStart(8, "0");
  return Buffer.concat([body, encodeFrame(FrameType.PlanEnd, ["3", sum])]);
}

test("decodePlan() reads a plan of version 1, which knows neither boot nor progress", () => {
  const old = oldFile(["1", "c1", "eth0"]);
  expect(decodePlan(old)).toEqual({ ...key, bootId: "", attempted: 0, calls });
});

test("decodePlan() reads a plan of version 2, which has no record", () => {
  const old = oldFile(["2", "c1", "eth0", "b1", "1"]);
  expect(decodePlan(old)).toEqual(plan);
  expect(() => decodeRecord(old)).toThrow(ProtocolError);
});

test("of several plans in a file the last one counts", () => {
  const newer = { ...plan, attempted: 2, calls: calls.slice(1) };
  const both = Buffer.concat([file, encodePlan(newer, { schema: "2", text: "{}" })]);
  expect(decodePlan(both)).toEqual(newer);
  expect(decodeRecord(both)).toEqual({ schema: "2", text: "{}", isOutdated: false });
});

test("a last plan that is cut short is passed over, and the boot of the one before is not known", () => {
  const newer = encodePlan({ ...plan, attempted: 2 }, record);
  for (let length = 1; length < newer.length; length++) {
    const bytes = Buffer.concat([file, newer.subarray(0, length)]);
    expect(decodePlan(bytes), `at ${length}`).toEqual({ ...plan, bootId: "" });
    expect(decodeRecord(bytes).isOutdated).toBe(true);
  }
});

test("a plan of which a byte is altered is passed over, and the last one counts", () => {
  const altered = Buffer.from(file);
  altered[30] = altered[30]! ^ 1;
  expect(decodePlan(Buffer.concat([file, altered, file]))).toEqual(plan);
  expect(decodePlan(Buffer.concat([file, altered]))).toEqual({ ...plan, bootId: "" });
});

test("decodePlan() refuses a file that is cut short at any byte", () => {
  for (let length = 0; length < file.length; length++) {
    expect(() => decodePlan(file.subarray(0, length)), `at ${length}`).toThrow(ProtocolError);
  }
});

test("decodePlan() refuses a file of which any byte is altered", () => {
  for (let at = 0; at < file.length; at++) {
    const altered = Buffer.from(file);
    altered[at] = altered[at]! ^ 1;
    expect(() => decodePlan(altered), `at ${at}`).toThrow(ProtocolError);
  }
});

test.each([
  ["a call too few", planFile({ end: ["2", "00000000"] })],
  ["a wrong checksum", planFile({ end: ["3", "00000000"] })],
  ["another version", planFile({ head: ["4", "c1", "eth0", "b1", "1"] })],
  ["no progress", planFile({ head: ["3", "c1", "eth0", "b1"] })],
  ["no version", planFile({ head: [] })],
  ["no key", planFile({ head: ["3"] })],
  ["a frame that is no call", planFile({ body: [encodeFrame(FrameType.Done, ["0", "", ""])] })],
  ["only an end", encodeFrame(FrameType.PlanEnd, ["0", "00000000"])],
])("decodePlan() refuses a file with %s", (_, bytes) => {
  expect(() => decodePlan(bytes)).toThrow(ProtocolError);
});
