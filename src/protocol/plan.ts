import { crc32 } from "node:zlib";
import { expectType, field, number } from "./fields.ts";
import {
  encodeFrame,
  type Frame,
  FrameReader,
  FrameType,
  ProtocolError,
  protocolVersion,
} from "./frame.ts";
import { decodeExec, type ExecMessage, encodeExec } from "./messages.ts";

/** Plans of earlier releases, which name neither boot nor progress: all of their calls are replayed. */
const firstPlanVersion = "1";

/** A teardown plan (shim/protocol.h, `PLAN`). */
export interface PlanMessage {
  readonly containerId: string;
  readonly ifName: string;
  /** The kernel's boot in which the ADD was made; "" in a plan of an earlier release. */
  readonly bootId: string;
  /** Groups below this number may have run in that boot. */
  readonly attempted: number;
  readonly calls: readonly ExecMessage[];
}

/** The content of a teardown plan's file. @throws ProtocolError when a call exceeds the frame limit */
export function encodePlan(plan: PlanMessage): Buffer {
  const { containerId, ifName, bootId, attempted, calls } = plan;
  const head = [protocolVersion, containerId, ifName, bootId, String(attempted)];
  const body = Buffer.concat([encodeFrame(FrameType.Plan, head), ...calls.map(encodeExec)]);
  const end = encodeFrame(FrameType.PlanEnd, [String(calls.length), checksum(body)]);
  return Buffer.concat([body, end]);
}

/**
 * The teardown plan in a file's content, of this version or the first.
 * @throws ProtocolError when it is truncated, altered or of another version
 */
export function decodePlan(file: Buffer): PlanMessage {
  const reader = new FrameReader();
  const frames = reader.push(file);
  const head = frames[0];
  const end = frames.at(-1);
  if (head === undefined || end === undefined || reader.pendingBytes > 0) {
    throw new ProtocolError("the plan is cut short");
  }
  expectType(head, FrameType.Plan);
  expectType(end, FrameType.PlanEnd);
  const progress = readProgress(head);
  const calls = frames.slice(1, -1).map(decodeExec);
  const body = file.subarray(0, file.length - encodeFrame(end.type, end.fields).length);
  if (number(end, 0) !== calls.length || field(end, 1).toString() !== checksum(body)) {
    throw new ProtocolError("the plan's checksum does not match");
  }
  const [containerId, ifName] = [field(head, 1).toString(), field(head, 2).toString()];
  return { containerId, ifName, ...progress, calls };
}

function readProgress(head: Frame): Pick<PlanMessage, "bootId" | "attempted"> {
  const version = field(head, 0).toString();
  if (version === firstPlanVersion) return { bootId: "", attempted: 0 };
  if (version === protocolVersion) {
    return { bootId: field(head, 3).toString(), attempted: number(head, 4) };
  }
  throw new ProtocolError(`the plan's version is ${JSON.stringify(version)}`);
}

function checksum(body: Buffer): string {
  return crc32(body).toString(16).padStart(8, "0");
}
