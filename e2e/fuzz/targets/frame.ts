import fc from "fast-check";
import {
  encodeFrame,
  FrameReader,
  FrameType,
  ProtocolError,
  wholeFrames,
} from "#protocol/frame.ts";
import {
  decodeDone,
  decodeExec,
  decodeExecResult,
  decodeFindResult,
  decodeNetlinkResult,
  decodeOccupantsResult,
  decodeRequest,
  decodeSandboxResult,
} from "#protocol/messages.ts";
import { must, refusing, type Target } from "../target.ts";

const field = fc.oneof(
  fc.constantFrom("4", "0", "1500", "exited", "found", "done", "CNI_COMMAND=ADD", "/a:/b"),
  fc.string({ maxLength: 20 }),
);

/** Bytes are texts here, a character for each: positions of edits are those of bytes. */
const frames = fc
  .array(fc.tuple(fc.constantFrom(...Object.values(FrameType)), fc.array(field)), { maxLength: 3 })
  .map((list) => Buffer.concat(list.map(([type, fields]) => encodeFrame(type, fields))))
  .map((bytes) => bytes.toString("latin1"));

const readers = [
  decodeRequest,
  decodeExec,
  decodeExecResult,
  decodeNetlinkResult,
  decodeOccupantsResult,
  decodeDone,
  decodeSandboxResult,
] as const;

/** The engine gives up at the first frame that it cannot decode; here each goes through all decoders. */
const decodedMax = 20;

/** Frames that a shim, or another process, sends over the socket. */
export const frame: Target = {
  maxLength: 200_000,
  inputs: frames,
  tokens: protocolTokens(),
  read(input) {
    const bytes = Buffer.from(input, "latin1");
    const reader = new FrameReader();
    const middle = bytes.length >> 1;
    const received = refusing(
      () => [...reader.push(bytes.subarray(0, middle)), ...reader.push(bytes.subarray(middle))],
      isProtocolError,
    );
    if (received === undefined) return;
    const again = Buffer.concat(received.map(({ type, fields }) => encodeFrame(type, fields)));
    const complete = [...wholeFrames(bytes)].at(-1)?.end ?? 0;
    must(
      again.equals(bytes.subarray(0, complete)),
      "frames that are not the same when they are written again",
    );
    for (const each of received.slice(0, decodedMax)) {
      for (const decode of readers) refusing(() => decode(each), isProtocolError);
      refusing(() => decodeFindResult(each, each.fields.length >> 1), isProtocolError);
    }
  },
};

/** How the protocol's readers refuse their input. */
export function isProtocolError(error: unknown): boolean {
  return error instanceof ProtocolError;
}

/** What frames are broken with. */
export function protocolTokens(): string[] {
  const lengths = ["\0\0\0\0", "\0\0\0\x01", "\0\0\0\x05", "\x01\0\0\0", "\xff\xff\xff\xff"];
  return [...lengths, "\0\0\0\0\0", "\0", "=", ":", "9", "\xff", "\0\0\0\x01\x06"];
}
