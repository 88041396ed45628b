import { crc32 } from "node:zlib";
import { expect, test } from "vitest";
import { encodeFrame, FrameType, ProtocolError } from "./frame.ts";
import { type ExecMessage, encodeExec } from "./messages.ts";
import { decodePlan, encodePlan, PlanVersionError } from "./plan.ts";

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

test("decodePlan() returns what encodePlan() encoded", () => {
  expect(decodePlan(file)).toEqual({ plan, record, isOutdated: false });
  const empty = { ...plan, calls: [] };
  expect(decodePlan(encodePlan(empty, record)).plan).toEqual(empty);
  expect(planFile({})).toEqual(file);
  expect(decodePlan(encodePlan(plan))).toEqual({ plan, record: undefined, isOutdated: false });
});

test("decodePlan() uses the last plan of a file", () => {
  const newer = { ...plan, attempted: 2, calls: calls.slice(1) };
  const both = Buffer.concat([file, encodePlan(newer, { schema: "2", text: "{}" })]);
  expect(decodePlan(both)).toMatchObject({ plan: newer, record: { schema: "2", text: "{}" } });
});

test("decodePlan() skips a truncated last plan, and the one before it has an unknown boot", () => {
  const newer = encodePlan({ ...plan, attempted: 2 }, record);
  for (let length = 1; length < newer.length; length++) {
    const bytes = Buffer.concat([file, newer.subarray(0, length)]);
    const found = { plan: { ...plan, bootId: "" }, record, isOutdated: true };
    expect(decodePlan(bytes), `at ${length}`).toEqual(found);
  }
});

test("decodePlan() skips an altered plan and uses the last valid one", () => {
  const altered = Buffer.from(file);
  altered[30] = altered[30]! ^ 1;
  expect(decodePlan(Buffer.concat([file, altered, file])).plan).toEqual(plan);
  expect(decodePlan(Buffer.concat([file, altered])).plan).toEqual({ ...plan, bootId: "" });
});

test("decodePlan() refuses a file that is truncated at any byte", () => {
  for (let length = 0; length < file.length; length++) {
    expect(() => decodePlan(file.subarray(0, length)), `at ${length}`).toThrow(ProtocolError);
  }
});

test("decodePlan() refuses a file with any byte altered", () => {
  for (let at = 0; at < file.length; at++) {
    const altered = Buffer.from(file);
    altered[at] = altered[at]! ^ 1;
    expect(() => decodePlan(altered), `at ${at}`).toThrow(ProtocolError);
  }
});

test("decodePlan() names the version that it does not support", () => {
  const later = planFile({ head: ["4", "c1", "eth0", "b1", "1", "new"] });
  const error = new PlanVersionError("4");
  expect(error.message).toBe('plan version "4" is not supported, only "3" is');
  for (const bytes of [later, Buffer.concat([file, later]), Buffer.concat([later, Buffer.of(0)])])
    expect(() => decodePlan(bytes)).toThrow(error);
});

test.each([
  ["a wrong number of calls", planFile({ end: ["2", "00000000"] })],
  ["a wrong checksum", planFile({ end: ["3", "00000000"] })],
  ["an earlier version", planFile({ head: ["2", "c1", "eth0", "b1", "1"] })],
  ["a later version", planFile({ head: ["4", "c1", "eth0", "b1", "1"] })],
  ["no number of attempted networks", planFile({ head: ["3", "c1", "eth0", "b1"] })],
  ["no version", planFile({ head: [] })],
  ["no key", planFile({ head: ["3"] })],
  ["a frame that is not a call", planFile({ body: [encodeFrame(FrameType.Done, ["0", "", ""])] })],
  ["only an end frame", encodeFrame(FrameType.PlanEnd, ["0", "00000000"])],
])("decodePlan() refuses a file with %s", (_, bytes) => {
  expect(() => decodePlan(bytes)).toThrow(ProtocolError);
});
