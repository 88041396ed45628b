import { crc32 } from "node:zlib";
import type { RecordKey } from "#lib/files/state-files.ts";
import { expectType, field, number } from "./fields.ts";
import {
  encodeFrame,
  type Frame,
  FrameReader,
  FrameType,
  frameMax,
  ProtocolError,
  wholeFrames,
} from "./frame.ts";
import { decodeExec, type ExecMessage, encodeExec } from "./messages.ts";

/** The only version of plans: readers refuse any other. */
const planVersion = "3";

/** A whole plan of a version that only another release can read. */
export class PlanVersionError extends ProtocolError {
  override readonly name = "PlanVersionError";

  constructor(version: string) {
    super(`plan version ${JSON.stringify(version)} is not supported, only "${planVersion}" is`);
  }
}

/** A teardown plan (shim/protocol.h, `PLAN`). */
export interface PlanMessage extends RecordKey {
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

/**
 * Finds the newest whole plan of a file, and where it ends. Skips wrong checksums and what a crash
 * left unfinished: `isOutdated` if something follows that is no whole plan.
 * @throws ProtocolError when there is none
 */
export function findNewestPlan(file: Buffer) {
  let found: { start: number; end: number } | undefined;
  let start: number | undefined;
  let calls = 0;
  for (const frame of wholeFrames(file)) {
    const { at } = frame;
    if (frame.type === FrameType.Plan) [start, calls] = [at, 0];
    if (frame.type === FrameType.Exec) calls++;
    if (frame.type === FrameType.PlanEnd && start !== undefined) {
      const end = file.subarray(at, frame.end);
      // The end has one spelling, so it is compared, not parsed.
      if (end.equals(endFrame(calls, file.subarray(start, at)))) found = { start, end: frame.end };
      // A plan has one end: the bytes are not summed again for another one.
      start = undefined;
    }
  }
  if (found === undefined) throw new ProtocolError("it is truncated or altered");
  const { end } = found;
  return { bytes: file.subarray(found.start, end), end, isOutdated: end < file.length };
}

/**
 * Whether a file ends before its first plan does, or has zeros in it. Files get their names when
 * they are complete, so the power was lost since.
 */
export function isIncomplete(file: Buffer): boolean {
  let at = 0;
  for (const frame of wholeFrames(file)) {
    if (frame.type === FrameType.PlanEnd) return false;
    at = frame.end;
  }
  const left = file.length - at;
  if (left < 4) return true;
  const length = file.readUInt32BE(at);
  // Zeros are what a file system has for content that it never got.
  return length === 0 || (length <= frameMax && length > left - 4);
}

function endFrame(calls: number, body: Buffer): Buffer {
  const checksum = crc32(body).toString(16).padStart(8, "0");
  return encodeFrame(FrameType.PlanEnd, [String(calls), checksum]);
}

/**
 * The newest whole plan, its record, and whether something follows: then `bootId` is "", as it is unknown
 * what was attempted since.
 * @throws ProtocolError when there is none, PlanVersionError when it is of another version
 */
export function decodePlan(file: Buffer) {
  const { bytes, isOutdated } = findNewestPlan(file);
  const [head, ...frames] = new FrameReader().push(bytes);
  if (head === undefined) throw new ProtocolError("there is no plan");
  expectType(head, FrameType.Plan);
  const version = field(head, 0).toString();
  if (version !== planVersion) throw new PlanVersionError(version);
  // The last frames are the record and the end.
  const last = frames.at(-2);
  const record = last?.type === FrameType.Record ? recordIn(last) : undefined;
  const plan: PlanMessage = {
    containerId: field(head, 1).toString(),
    ifName: field(head, 2).toString(),
    bootId: isOutdated ? "" : field(head, 3).toString(),
    attempted: number(head, 4),
    // Takes as long as the rest, and a list of the records does not need it.
    get calls() {
      return frames.slice(0, record === undefined ? -1 : -2).map(decodeExec);
    },
  };
  return { plan, record, isOutdated };
}

function recordIn({ fields: [schema, text] }: Frame): RecordMessage {
  return { schema: String(schema ?? ""), text: String(text ?? "") };
}
