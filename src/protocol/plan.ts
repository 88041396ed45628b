import { crc32 } from "node:zlib";
import { expectType, field, number } from "./fields.ts";
import { decodeFrames, encodeFrame, FrameType, frameAt, ProtocolError } from "./frame.ts";
import { decodeExec, type ExecMessage, encodeExec } from "./messages.ts";

/** The only version of plans: readers refuse any other. */
const planVersion = "3";

/** A teardown plan (shim/protocol.h, `PLAN`). */
export interface PlanMessage {
  readonly containerId: string;
  readonly ifName: string;
  /** The boot of the ADD; "" if it is unknown what was attempted, so that all calls run. */
  readonly bootId: string;
  /** Groups below this number may have been attempted in that boot. */
  readonly attempted: number;
  readonly calls: readonly ExecMessage[];
}

/** The record that a plan was made from; the shim skips it. */
export interface RecordMessage {
  /** Of the text: a decimal number. */
  readonly schema: string;
  readonly text: string;
}

/**
 * The bytes of a teardown plan and its record, to be appended to their file. A plan without a
 * sandbox has no record.
 * @throws ProtocolError when a call or the record exceeds the frame limit
 */
export function encodePlan(plan: PlanMessage, record?: RecordMessage): Buffer {
  const { containerId, ifName, bootId, attempted, calls } = plan;
  const head = [planVersion, containerId, ifName, bootId, String(attempted)];
  const body = Buffer.concat([
    encodeFrame(FrameType.Plan, head),
    ...calls.map(encodeExec),
    ...(record === undefined ? [] : [encodeFrame(FrameType.Record, [record.schema, record.text])]),
  ]);
  return Buffer.concat([body, endFrame(calls.length, body)]);
}

/** The newest plan in a file's bytes that is whole. */
export interface NewestPlan {
  readonly bytes: Buffer;
  /** Where it ends in the file. */
  readonly end: number;
  /** Whether something follows that is no whole plan: a truncated update, or damage. */
  readonly isOutdated: boolean;
}

/**
 * Finds the newest whole plan of a file. Skips wrong checksums and what a crash left unfinished.
 * @throws ProtocolError when there is none
 */
export function findNewestPlan(file: Buffer): NewestPlan {
  let found: { start: number; end: number } | undefined;
  let start: number | undefined;
  let calls = 0;
  let at = 0;
  for (let frame = frameAt(file, at); frame !== undefined; frame = frameAt(file, at)) {
    if (frame.type === FrameType.Plan) [start, calls] = [at, 0];
    if (frame.type === FrameType.Exec) calls++;
    if (frame.type === FrameType.PlanEnd && start !== undefined) {
      const end = file.subarray(at, frame.end);
      // The end has one spelling, so it is compared, not parsed.
      if (end.equals(endFrame(calls, file.subarray(start, at)))) found = { start, end: frame.end };
      // A plan has one end: the bytes are not summed again for another one.
      start = undefined;
    }
    at = frame.end;
  }
  if (found === undefined) throw new ProtocolError("it is truncated or altered");
  const { end } = found;
  return { bytes: file.subarray(found.start, end), end, isOutdated: end < file.length };
}

function endFrame(calls: number, body: Buffer): Buffer {
  const checksum = crc32(body).toString(16).padStart(8, "0");
  return encodeFrame(FrameType.PlanEnd, [String(calls), checksum]);
}

/**
 * The newest whole plan. If something follows it, `bootId` is "": unknown what was attempted since.
 * @throws ProtocolError when there is none, or it is of another version
 */
export function decodePlan(file: Buffer): PlanMessage {
  const { bytes, isOutdated } = findNewestPlan(file);
  const [head, ...frames] = decodeFrames(bytes);
  if (head === undefined) throw new ProtocolError("there is no plan");
  expectType(head, FrameType.Plan);
  const version = field(head, 0).toString();
  if (version !== planVersion) {
    throw new ProtocolError(
      `plan version ${JSON.stringify(version)} is not supported, only "${planVersion}" is`,
    );
  }
  return {
    containerId: field(head, 1).toString(),
    ifName: field(head, 2).toString(),
    bootId: isOutdated ? "" : field(head, 3).toString(),
    attempted: number(head, 4),
    // The last frames are the record and the end.
    calls: frames.slice(0, frames.at(-2)?.type === FrameType.Record ? -2 : -1).map(decodeExec),
  };
}

/** The record of the newest plan of a file. @throws ProtocolError when there is none */
export function decodeRecord(file: Buffer): RecordMessage & { readonly isOutdated: boolean } {
  const { bytes, isOutdated } = findNewestPlan(file);
  const record = decodeFrames(bytes).find(({ type }) => type === FrameType.Record);
  if (record === undefined) throw new ProtocolError("it has a teardown plan, but no record");
  return { schema: field(record, 0).toString(), text: field(record, 1).toString(), isOutdated };
}
