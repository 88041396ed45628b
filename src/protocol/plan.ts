import { crc32 } from "node:zlib";
import { expectType, field, number } from "./fields.ts";
import {
  decodeFrames,
  encodeFrame,
  type Frame,
  FrameType,
  frameAt,
  ProtocolError,
} from "./frame.ts";
import { decodeExec, type ExecMessage, encodeExec } from "./messages.ts";

/** The version that is written: a plan with its record, in a file that can hold newer ones after it. */
const planVersion = "3";
/** Plans of earlier releases, in files of their own. The first one has neither boot nor progress: all of its calls are replayed. */
const [firstPlanVersion, secondPlanVersion] = ["1", "2"];

/** A teardown plan (shim/protocol.h, `PLAN`). */
export interface PlanMessage {
  readonly containerId: string;
  readonly ifName: string;
  /** The kernel's boot in which the ADD was made; "" where progress is not known, so that all calls are to be replayed. */
  readonly bootId: string;
  /** Groups below this number may have run in that boot. */
  readonly attempted: number;
  readonly calls: readonly ExecMessage[];
}

/** The record that a plan was made from; the shim passes over it. */
export interface RecordMessage {
  /** Of the text: a decimal number. */
  readonly schema: string;
  /** A JSON object. */
  readonly text: string;
}

/**
 * A teardown plan and its record, as bytes that are appended to their file; a plan that belongs to no sandbox has
 * no record.
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
  /** From its first frame to its last one. */
  readonly bytes: Buffer;
  /** Where it ends in the file. */
  readonly end: number;
  /** Whether something follows that is no whole plan: an update that was cut short, or damage. */
  readonly isOutdated: boolean;
}

/**
 * Finds the newest plan of a file: each update is appended. One whose checksum does not match is passed
 * over, as is what a crash or a full disk left unfinished.
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
      const { end } = frame;
      if (isEnd(file, { start, at, end }, calls)) found = { start, end };
      // A plan has one end: another would have all of it summed up again.
      start = undefined;
    }
    at = frame.end;
  }
  if (found === undefined) throw new ProtocolError("it is cut short or altered");
  const { end } = found;
  return { bytes: file.subarray(found.start, end), end, isOutdated: end < file.length };
}

/** The end has one spelling, so that it is compared, not parsed. */
function isEnd(
  file: Buffer,
  { start, at, end }: { start: number; at: number; end: number },
  calls: number,
): boolean {
  return file.subarray(at, end).equals(endFrame(calls, file.subarray(start, at)));
}

function endFrame(calls: number, body: Buffer): Buffer {
  const checksum = crc32(body).toString(16).padStart(8, "0");
  return encodeFrame(FrameType.PlanEnd, [String(calls), checksum]);
}

/**
 * The newest teardown plan in a file's bytes, of this version or an earlier one. Where something that is
 * not whole follows it, what was done since is not known: its boot is then "".
 * @throws ProtocolError when there is none, or it is of another version
 */
export function decodePlan(file: Buffer): PlanMessage {
  const { bytes, isOutdated } = findNewestPlan(file);
  const [head, ...frames] = decodeFrames(bytes);
  if (head === undefined) throw new ProtocolError("there is no plan");
  expectType(head, FrameType.Plan);
  const progress = readProgress(head);
  const [containerId, ifName] = [field(head, 1).toString(), field(head, 2).toString()];
  return {
    containerId,
    ifName,
    ...progress,
    ...(isOutdated ? { bootId: "" } : {}),
    calls: withoutEnd(frames).map(decodeExec),
  };
}

/** What is left are the calls: the record and the end are the last frames. */
function withoutEnd(frames: readonly Frame[]): readonly Frame[] {
  return frames.slice(0, frames.at(-2)?.type === FrameType.Record ? -2 : -1);
}

/**
 * The record of the newest plan in a file's bytes.
 * @throws ProtocolError when there is none
 */
export function decodeRecord(file: Buffer): RecordMessage & { readonly isOutdated: boolean } {
  const { bytes, isOutdated } = findNewestPlan(file);
  for (let at = 0; ; ) {
    const frame = frameAt(bytes, at);
    if (frame === undefined) throw new ProtocolError("it has a teardown plan, but no record");
    if (frame.type === FrameType.Record) {
      const [record] = decodeFrames(bytes.subarray(at, frame.end)) as [Frame];
      const [schema, text] = [field(record, 0).toString(), field(record, 1).toString()];
      return { schema, text, isOutdated };
    }
    at = frame.end;
  }
}

function readProgress(head: Frame): Pick<PlanMessage, "bootId" | "attempted"> {
  const version = field(head, 0).toString();
  if (version === firstPlanVersion) return { bootId: "", attempted: 0 };
  if (version === planVersion || version === secondPlanVersion) {
    return { bootId: field(head, 3).toString(), attempted: number(head, 4) };
  }
  throw new ProtocolError(`the plan's version is ${JSON.stringify(version)}`);
}
