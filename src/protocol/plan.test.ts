import { crc32 } from "node:zlib";
import { expect, test } from "vitest";
import { encodeFrame, FrameType, ProtocolError } from "./frame.ts";
import { type ExecMessage, encodeExec } from "./messages.ts";
import { decodePlan, encodePlan } from "./plan.ts";

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
const file = encodePlan(plan);

/** A plan's file with any head and end around its calls. */
function planFile(parts: { head?: string[]; end?: string[]; body?: Buffer[] }): Buffer {
  const { head = ["2", "c1", "eth0", "b1", "1"], body = calls.map(encodeExec) } = parts;
  const before = Buffer.concat([encodeFrame(FrameType.Plan, head), ...body]);
  const sum = crc32(before).toString(16).padStart(8, "0");
  const end = parts.end ?? [String(body.length), sum];
  return Buffer.concat([before, encodeFrame(FrameType.PlanEnd, end)]);
}

test("encodePlan() and decodePlan() are each other's inverse", () => {
  expect(decodePlan(file)).toEqual(plan);
  expect(decodePlan(encodePlan({ ...plan, calls: [] }))).toEqual({ ...plan, calls: [] });
  expect(planFile({})).toEqual(file);
});

test("decodePlan() reads a plan of version 1, which knows neither boot nor progress", () => {
  const old = planFile({ head: ["1", "c1", "eth0"] });
  expect(decodePlan(old)).toEqual({ ...key, bootId: "", attempted: 0, calls });
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
  ["bytes after its end", Buffer.concat([file, Buffer.of(0)])],
  ["two plans", Buffer.concat([file, file])],
  ["a call too few", planFile({ end: ["2", "00000000"] })],
  ["a wrong checksum", planFile({ end: ["3", "00000000"] })],
  ["another version", planFile({ head: ["3", "c1", "eth0", "b1", "1"] })],
  ["no progress", planFile({ head: ["2", "c1", "eth0", "b1"] })],
  ["no version", planFile({ head: [] })],
  ["no key", planFile({ head: ["2"] })],
  ["a frame that is no call", planFile({ body: [encodeFrame(FrameType.Done, ["0", "", ""])] })],
  ["only an end", encodeFrame(FrameType.PlanEnd, ["0", "00000000"])],
])("decodePlan() refuses a file with %s", (_, bytes) => {
  expect(() => decodePlan(bytes)).toThrow(ProtocolError);
});
