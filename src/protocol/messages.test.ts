import fc from "fast-check";
import { expect, test } from "vitest";
import { encodeFrame, type Frame, FrameReader, FrameType, ProtocolError } from "./frame.ts";
import {
  decodeDone,
  decodeExec,
  decodeExecResult,
  decodeFind,
  decodeFindResult,
  decodeNetlinkResult,
  decodeRequest,
  encodeDone,
  encodeExec,
  encodeFind,
  encodeNetlink,
  encodeRequest,
} from "./messages.ts";

function parse(bytes: Buffer): Frame {
  const [frame] = new FrameReader().push(bytes);
  if (frame === undefined) throw new Error("no frame");
  return frame;
}

const frameOf = (type: number, ...fields: (string | Uint8Array)[]): Frame =>
  parse(encodeFrame(type, fields));
const text = fc.string({ unit: "grapheme" });
const env = fc.dictionary(fc.stringMatching(/^CNI_[A-Z]{1,8}$/), text);

test("REQUEST comes through as it was", () => {
  fc.assert(
    fc.property(fc.record({ env, stdin: text }, { noNullPrototype: true }), (message) => {
      expect(decodeRequest(parse(encodeRequest(message)))).toEqual({
        ...message,
        env: { ...message.env },
      });
    }),
  );
});

test("EXEC comes through as it was", () => {
  const message = fc.record({
    group: fc.nat(),
    type: text,
    searchPath: fc.array(fc.stringMatching(/^\/[a-z]{1,8}$/), { maxLength: 3 }),
    timeoutMs: fc.nat(),
    stdin: text,
    env,
  });
  fc.assert(
    fc.property(message, (sent) => {
      expect(decodeExec(parse(encodeExec(sent)))).toEqual({ ...sent, env: { ...sent.env } });
    }),
  );
});

test("DONE comes through as it was", () => {
  const message = fc.record({ exitCode: fc.nat(255), stdout: text, stderr: text });
  fc.assert(
    fc.property(message, (sent) => {
      expect(decodeDone(parse(encodeDone(sent)))).toEqual({ ...sent });
    }),
  );
});

test("environment values may hold =, semicolons and nothing", () => {
  const message = { stdin: "", env: { CNI_ARGS: "A=b;C=d=e", CNI_NETNS: "" } };
  expect(decodeRequest(parse(encodeRequest(message)))).toEqual(message);
});

test("NETLINK carries path and bytes as they are", () => {
  const frame = parse(encodeNetlink("/run/netns/x", Uint8Array.of(0, 255, 10)));
  expect(frame.type).toBe(FrameType.Netlink);
  expect(frame.fields.map((field) => field.toString("latin1"))).toEqual([
    "/run/netns/x",
    "\0\xff\n",
  ]);
});

test.each(["exited", "signaled", "timeout", "overflow", "missing", "refused", "failed"])(
  "EXEC_RESULT: the outcome %s is known",
  (outcome) => {
    const frame = frameOf(FrameType.ExecResult, outcome, "7", "out", "err", "why", "1500");
    expect(decodeExecResult(frame)).toEqual({
      outcome,
      code: 7,
      stdout: "out",
      stderr: "err",
      message: "why",
      elapsedUs: 1500,
    });
  },
);

test("NETLINK_RESULT keeps bytes as they are", () => {
  const frame = frameOf(
    FrameType.NetlinkResult,
    "2",
    Uint8Array.of(0, 200),
    "no such namespace",
    "open",
  );
  expect(decodeNetlinkResult(frame)).toEqual({
    errno: 2,
    bytes: Buffer.of(0, 200),
    message: "no such namespace",
    stage: "open",
  });
});

test("FIND comes through as it was", () => {
  const [searchPath, types] = [
    ["/opt/cni/bin", "/b"],
    ["ptp", "bridge"],
  ];
  expect(decodeFind(parse(encodeFind(searchPath, types)))).toEqual({ searchPath, types });
});

test("FIND of more plugins than a frame of the shim can have is refused", () => {
  const types = (count: number): string[] => Array.from({ length: count }, (_, i) => `p${i}`);
  expect(decodeFind(parse(encodeFind(["/x"], types(60)))).types).toHaveLength(60);
  expect(() => encodeFind(["/x"], types(61))).toThrow(ProtocolError);
});

test.each([
  [
    "an answer for another number of plugins",
    () => decodeFindResult(frameOf(10, "found", ""), 2),
    /2 fields in the answer for 2 plugins/,
  ],
  [
    "an outcome that FIND cannot have",
    () => decodeFindResult(frameOf(10, "exited", ""), 1),
    /exited/,
  ],
  [
    "a stage of another version",
    () => decodeNetlinkResult(frameOf(5, "2", "", "", "later")),
    /later/,
  ],
  ["no stage", () => decodeNetlinkResult(frameOf(5, "2", "", "")), /lacks field 3/],
  [
    "an outcome of another version",
    () => decodeExecResult(frameOf(3, "exploded", "0", "", "", "", "0")),
    /exploded/,
  ],
  ["a missing field", () => decodeExecResult(frameOf(3, "exited", "0", "", "")), /lacks field 4/],
  [
    "a number that is none",
    () => decodeExecResult(frameOf(3, "exited", "-1", "", "", "", "0")),
    /"-1", not a number/,
  ],
  ["a number with more behind it", () => decodeDone(frameOf(6, "0x1", "", "")), /not a number/],
  ["an empty number", () => decodeNetlinkResult(frameOf(5, "", "", "")), /not a number/],
  [
    "a number too large to be exact",
    () => decodeDone(frameOf(6, "9007199254740993", "", "")),
    /not a number/,
  ],
  [
    "another frame than expected",
    () => decodeDone(frameOf(3, "0", "", "")),
    /type 3 where type 6 was expected/,
  ],
  ["an unknown frame", () => decodeRequest(frameOf(99, "1")), /type 99/],
  [
    "another protocol version",
    () => decodeRequest(frameOf(1, "1", "")),
    /version "1", plexusd speaks "2"/,
  ],
  ["no version", () => decodeRequest(frameOf(1)), /version undefined/],
  [
    "an environment entry without a name",
    () => decodeRequest(frameOf(1, "2", "", "=x")),
    /has no name/,
  ],
  [
    "an environment entry that is none",
    () => decodeRequest(frameOf(1, "2", "", "CNI_X")),
    /has no name/,
  ],
])("%s breaks the protocol", (_, decode, message) => {
  expect(decode).toThrow(ProtocolError);
  expect(decode).toThrow(message);
});
