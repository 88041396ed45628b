import { crc32 } from "node:zlib";
import {
  encodeFrame,
  type Frame,
  FrameReader,
  FrameType,
  ProtocolError,
  protocolVersion,
} from "./frame.ts";

/** The shim's request: the CNI_* variables and the network configuration of the call. */
export interface RequestMessage {
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
}

/** The order to execute a delegate (shim/protocol.h, `EXEC`). */
export interface ExecMessage {
  readonly group: number;
  readonly type: string;
  readonly searchPath: readonly string[];
  readonly timeoutMs: number;
  readonly stdin: string;
  readonly env: Readonly<Record<string, string>>;
}

/** How a delegate ended (shim/protocol.h, `EXEC_RESULT`). */
interface ExecResultMessage {
  readonly outcome: ExecOutcome;
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly message: string;
  readonly elapsedUs: number;
}

const execOutcomes = [
  "exited",
  "signaled",
  "timeout",
  "overflow",
  "missing",
  "refused",
  "failed",
] as const;

/** The ways in which an execution can end. */
type ExecOutcome = (typeof execOutcomes)[number];

/** The kernel's answer, or the reason why the request could not be sent. */
interface NetlinkResultMessage {
  /** 0 with an answer, else the errno of the operation that failed. */
  readonly errno: number;
  readonly bytes: Buffer;
  readonly message: string;
}

/** The end of the call: what the shim prints, and its exit status. */
export interface DoneMessage {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** @throws ProtocolError when it is not a `REQUEST` of this protocol version */
export function decodeRequest(frame: Frame): RequestMessage {
  expectType(frame, FrameType.Request);
  const version = frame.fields[0]?.toString();
  if (version !== protocolVersion) {
    throw new ProtocolError(
      `the shim speaks protocol version ${JSON.stringify(version)}, plexusd speaks "${protocolVersion}"`,
    );
  }
  return { stdin: field(frame, 1).toString(), env: decodeEnv(frame.fields.slice(2)) };
}

export function encodeRequest(message: RequestMessage): Buffer {
  return encodeFrame(FrameType.Request, [
    protocolVersion,
    message.stdin,
    ...envFields(message.env),
  ]);
}

export function encodeExec(message: ExecMessage): Buffer {
  return encodeFrame(FrameType.Exec, [
    String(message.group),
    message.type,
    message.searchPath.join(":"),
    String(message.timeoutMs),
    message.stdin,
    ...envFields(message.env),
  ]);
}

/** @throws ProtocolError when it is not a well-formed `EXEC` */
export function decodeExec(frame: Frame): ExecMessage {
  expectType(frame, FrameType.Exec);
  return {
    group: number(frame, 0),
    type: field(frame, 1).toString(),
    searchPath: field(frame, 2)
      .toString()
      .split(":")
      .filter((dir) => dir !== ""),
    timeoutMs: number(frame, 3),
    stdin: field(frame, 4).toString(),
    env: decodeEnv(frame.fields.slice(5)),
  };
}

/** @throws ProtocolError when it is not a well-formed `EXEC_RESULT` */
export function decodeExecResult(frame: Frame): ExecResultMessage {
  expectType(frame, FrameType.ExecResult);
  const outcome = execOutcomes.find((known) => known === field(frame, 0).toString());
  if (outcome === undefined) {
    throw new ProtocolError(`unknown outcome ${JSON.stringify(field(frame, 0).toString())}`);
  }
  return {
    outcome,
    code: number(frame, 1),
    stdout: field(frame, 2).toString(),
    stderr: field(frame, 3).toString(),
    message: field(frame, 4).toString(),
    elapsedUs: number(frame, 5),
  };
}

export function encodeNetlink(netnsPath: string, bytes: Uint8Array): Buffer {
  return encodeFrame(FrameType.Netlink, [netnsPath, bytes]);
}

/** @throws ProtocolError when it is not a well-formed `NETLINK_RESULT` */
export function decodeNetlinkResult(frame: Frame): NetlinkResultMessage {
  expectType(frame, FrameType.NetlinkResult);
  return { errno: number(frame, 0), bytes: field(frame, 1), message: field(frame, 2).toString() };
}

export function encodeDone(message: DoneMessage): Buffer {
  return encodeFrame(FrameType.Done, [String(message.exitCode), message.stdout, message.stderr]);
}

/** @throws ProtocolError when it is not a well-formed `DONE` */
export function decodeDone(frame: Frame): DoneMessage {
  expectType(frame, FrameType.Done);
  return {
    exitCode: number(frame, 0),
    stdout: field(frame, 1).toString(),
    stderr: field(frame, 2).toString(),
  };
}

/** The content of a teardown plan's file (shim/protocol.h, `PLAN`). */
export function encodePlan(
  key: { containerId: string; ifName: string },
  calls: readonly ExecMessage[],
): Buffer {
  const frames = [
    encodeFrame(FrameType.Plan, [protocolVersion, key.containerId, key.ifName]),
    ...calls.map(encodeExec),
  ];
  const body = Buffer.concat(frames);
  const sum = crc32(body).toString(16).padStart(8, "0");
  return Buffer.concat([body, encodeFrame(FrameType.PlanEnd, [String(calls.length), sum])]);
}

/**
 * The calls of a teardown plan's file.
 * @throws ProtocolError when it is truncated, altered or of another version
 */
export function decodePlan(file: Buffer): {
  containerId: string;
  ifName: string;
  calls: ExecMessage[];
} {
  const reader = new FrameReader();
  const frames = reader.push(file);
  const head = frames[0];
  const end = frames.at(-1);
  if (head === undefined || end === undefined || reader.pendingBytes > 0) {
    throw new ProtocolError("the plan is cut short");
  }
  expectType(head, FrameType.Plan);
  expectType(end, FrameType.PlanEnd);
  if (field(head, 0).toString() !== protocolVersion) {
    throw new ProtocolError(`the plan's version is ${JSON.stringify(field(head, 0).toString())}`);
  }
  const calls = frames.slice(1, -1).map(decodeExec);
  const body = file.subarray(0, file.length - encodeFrame(end.type, end.fields).length);
  const sum = crc32(body).toString(16).padStart(8, "0");
  if (number(end, 0) !== calls.length || field(end, 1).toString() !== sum) {
    throw new ProtocolError("the plan's checksum does not match");
  }
  return { containerId: field(head, 1).toString(), ifName: field(head, 2).toString(), calls };
}

function envFields(env: Readonly<Record<string, string>>): string[] {
  return Object.entries(env).map(([name, value]) => `${name}=${value}`);
}

function decodeEnv(fields: readonly Buffer[]): Record<string, string> {
  const env: Record<string, string> = {};
  for (const entry of fields) {
    const text = entry.toString();
    const equals = text.indexOf("=");
    if (equals < 1)
      throw new ProtocolError(`environment entry ${JSON.stringify(text)} has no name`);
    env[text.slice(0, equals)] = text.slice(equals + 1);
  }
  return env;
}

function expectType(frame: Frame, type: number): void {
  if (frame.type !== type) {
    throw new ProtocolError(`frame of type ${frame.type} where type ${type} was expected`);
  }
}

function field(frame: Frame, index: number): Buffer {
  const value = frame.fields[index];
  if (value === undefined) {
    throw new ProtocolError(`frame of type ${frame.type} lacks field ${index}`);
  }
  return value;
}

function number(frame: Frame, index: number): number {
  const text = field(frame, index).toString();
  if (!/^\d{1,15}$/.test(text)) {
    throw new ProtocolError(
      `field ${index} of frame type ${frame.type} is ${JSON.stringify(text)}, not a number`,
    );
  }
  return Number(text);
}
