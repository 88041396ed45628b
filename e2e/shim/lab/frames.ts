import { readFileSync } from "node:fs";
import { crc32 } from "node:zlib";

/** A second implementation of `shim/protocol.h`, so that the tests share no mistake with the engine. */
export const FrameType = {
  request: 1,
  exec: 2,
  execResult: 3,
  netlink: 4,
  netlinkResult: 5,
  done: 6,
  plan: 7,
  planEnd: 8,
  find: 9,
  findResult: 10,
  record: 11,
  require: 12,
  sandbox: 13,
  sandboxResult: 14,
  occupants: 15,
  occupantsResult: 16,
} as const;

export type FieldValue = string | number | Uint8Array;

export interface Frame {
  type: number;
  fields: Buffer[];
}

export interface ExecOrder {
  group?: string;
  type: string;
  path: string;
  timeoutMs?: number | string;
  stdin?: FieldValue;
  env?: string[];
}

export function encodeFrame(type: number, fields: FieldValue[]): Buffer {
  const parts = fields.flatMap((value) => {
    const bytes = Buffer.from(typeof value === "object" ? value : String(value));
    const head = Buffer.alloc(4);
    head.writeUInt32BE(bytes.length);
    return [head, bytes, Buffer.of(0)];
  });
  const body = Buffer.concat([Buffer.of(type), ...parts]);
  const head = Buffer.alloc(4);
  head.writeUInt32BE(body.length);
  return Buffer.concat([head, body]);
}

export function encodeExec(order: ExecOrder): Buffer {
  const { group = "0", type, path, timeoutMs = 20_000, stdin = "{}", env = [] } = order;
  return encodeFrame(FrameType.exec, [group, type, path, timeoutMs, stdin, ...env]);
}

/** Splits the first frame off the bytes; returns undefined if it is incomplete. */
export function decodeFrame(bytes: Buffer): { frame: Frame; rest: Buffer } | undefined {
  if (bytes.length < 4 || bytes.length < 4 + bytes.readUInt32BE(0)) return undefined;
  const end = 4 + bytes.readUInt32BE(0);
  const fields: Buffer[] = [];
  for (let at = 5; at < end; ) {
    const size = bytes.readUInt32BE(at);
    if (bytes[at + 4 + size] !== 0) throw new Error("field without its NUL");
    fields.push(bytes.subarray(at + 4, at + 4 + size));
    at += size + 5;
  }
  return { frame: { type: bytes[4] ?? 0, fields }, rest: bytes.subarray(end) };
}

export interface PlanParts {
  containerId: string;
  ifName: string;
  version?: string;
  /** The boot in which the plan was written. @default this machine's current boot */
  bootId?: string;
  /** Groups below this number were attempted. @default 99 */
  attempted?: number | string;
  steps: ExecOrder[];
}

/** The machine's current boot ID. */
export const bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();

/** The bytes of a teardown plan with its record. */
export function encodePlan(parts: PlanParts): Buffer {
  const { version = "3", attempted = 99 } = parts;
  const head = [version, parts.containerId, parts.ifName, parts.bootId ?? bootId, attempted];
  const body = Buffer.concat([
    encodeFrame(FrameType.plan, head),
    ...parts.steps.map(encodeExec),
    encodeFrame(FrameType.record, ["2", "{}"]),
  ]);
  return Buffer.concat([body, encodePlanEnd(parts.steps.length, body)]);
}

/** The closing frame of a plan with this many steps. */
export function encodePlanEnd(count: number, body: Buffer): Buffer {
  const sum = crc32(body).toString(16).padStart(8, "0");
  return encodeFrame(FrameType.planEnd, [count, sum]);
}
