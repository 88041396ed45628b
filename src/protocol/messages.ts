import type { RecordKey } from "#lib/files/state-files.ts";
import { decodeEnv, envFields, expectType, field, number, oneOf } from "./fields.ts";
import { encodeFrame, type Frame, FrameType, ProtocolError, protocolVersion } from "./frame.ts";

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

const execOutcomes = [
  "exited",
  "signaled",
  "timeout",
  "overflow",
  "missing",
  "refused",
  "failed",
] as const;

const findOutcomes = ["found", "missing", "refused"] as const;

const sandboxOutcomes = ["ok", "busy", "gone", "refused"] as const;

/** `open` = the namespace could not be entered, `request` = the kernel gave no answer. */
const netlinkStages = ["done", "open", "request"] as const;

/** The end of the call: what the shim prints, and its exit status. */
export interface DoneMessage {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A `REQUEST` of a shim that speaks another version: it is of another release. */
export class ProtocolVersionError extends ProtocolError {
  override readonly name = "ProtocolVersionError";
}

/** @throws ProtocolVersionError for another version; ProtocolError when it is no `REQUEST` */
export function decodeRequest(frame: Frame): RequestMessage {
  expectType(frame, FrameType.Request);
  const version = frame.fields[0]?.toString();
  if (version !== protocolVersion) {
    throw new ProtocolVersionError(
      `the shim speaks protocol version ${JSON.stringify(version)}, plexusd speaks "${protocolVersion}"`,
    );
  }
  return { stdin: field(frame, 1).toString(), env: decodeEnv(frame.fields.slice(2)) };
}

/** What a shim sends, for the shims of tests and of the self-test. */
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

/** The orders that make the next `EXEC` depend on further types. */
export function encodeRequire(searchPath: readonly string[], types: readonly string[]): Buffer[] {
  return typesByFrame(types).map((some) =>
    encodeFrame(FrameType.Require, [searchPath.join(":"), ...some]),
  );
}

/** @throws ProtocolError when it is not a well-formed `EXEC` */
export function decodeExec(frame: Frame): ExecMessage {
  expectType(frame, FrameType.Exec);
  return {
    group: number(frame, 0),
    type: field(frame, 1).toString(),
    searchPath: splitPath(field(frame, 2)),
    timeoutMs: number(frame, 3),
    stdin: field(frame, 4).toString(),
    env: decodeEnv(frame.fields.slice(5)),
  };
}

/** How a delegate ended. @throws ProtocolError unless well-formed */
export function decodeExecResult(frame: Frame) {
  expectType(frame, FrameType.ExecResult);
  return {
    outcome: oneOf(execOutcomes, field(frame, 0)),
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

/** The kernel's answer; else the errno of what failed, and why. @throws ProtocolError */
export function decodeNetlinkResult(frame: Frame) {
  expectType(frame, FrameType.NetlinkResult);
  return {
    errno: number(frame, 0),
    bytes: field(frame, 1),
    message: field(frame, 2).toString(),
    stage: oneOf(netlinkStages, field(frame, 3)),
  };
}

/** Plugin types in lists for one frame each: a frame of the shim has 64 fields at most. */
export function typesByFrame(types: readonly string[]): readonly string[][] {
  return [...Map.groupBy(types, (_, index) => Math.floor(index / 60)).values()];
}

/** Asks for types that fit into one frame. */
export function encodeFind(searchPath: readonly string[], types: readonly string[]): Buffer {
  return encodeFrame(FrameType.Find, [searchPath.join(":"), ...types]);
}

/** Whether each of `count` types is there, or why not. @throws ProtocolError unless well-formed */
export function decodeFindResult(frame: Frame, count: number) {
  expectType(frame, FrameType.FindResult);
  if (frame.fields.length !== 2 * count) {
    throw new ProtocolError(`${frame.fields.length} fields in the answer for ${count} plugins`);
  }
  return Array.from({ length: count }, (_, i) => ({
    outcome: oneOf(findOutcomes, field(frame, 2 * i)),
    message: field(frame, 2 * i + 1).toString(),
  }));
}

export function encodeOccupants(netnsPath: string): Buffer {
  return encodeFrame(FrameType.Occupants, [netnsPath]);
}

/** The records whose sandbox may be in the namespace. @throws ProtocolError unless well-formed */
export function decodeOccupantsResult(frame: Frame): RecordKey[] {
  expectType(frame, FrameType.OccupantsResult);
  const names = field(frame, 0).toString().split("/").slice(0, -1);
  return names.map((name) => {
    const [containerId = "", ...ifName] = name.split("@");
    return { containerId, ifName: ifName.join("@") };
  });
}

/** The order to lock a sandbox (shim/protocol.h, `SANDBOX`). */
export function encodeSandbox(sandbox: {
  readonly containerId: string;
  readonly ifName: string;
  readonly netns: string;
  readonly isInspection?: boolean | undefined;
}): Buffer {
  const { containerId, ifName, netns, isInspection = false } = sandbox;
  const use = isInspection ? ["inspect"] : [];
  return encodeFrame(FrameType.Sandbox, [containerId, ifName, netns, ...use]);
}

/** Whether the sandbox is locked, or why not, and its interfaces. @throws ProtocolError */
export function decodeSandboxResult(frame: Frame) {
  expectType(frame, FrameType.SandboxResult);
  return {
    outcome: oneOf(sandboxOutcomes, field(frame, 0)),
    message: field(frame, 1).toString(),
    links: field(frame, 2).toString(),
  };
}

export function encodeDone(message: DoneMessage): Buffer {
  return encodeFrame(FrameType.Done, [String(message.exitCode), message.stdout, message.stderr]);
}

/** What a shim reads. @throws ProtocolError when it is not a well-formed `DONE` */
export function decodeDone(frame: Frame): DoneMessage {
  expectType(frame, FrameType.Done);
  return {
    exitCode: number(frame, 0),
    stdout: field(frame, 1).toString(),
    stderr: field(frame, 2).toString(),
  };
}

function splitPath(path: Buffer): string[] {
  return path
    .toString()
    .split(":")
    .filter((dir) => dir !== "");
}
