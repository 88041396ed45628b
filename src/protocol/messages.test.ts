import fc from "fast-check";
import { expect, test } from "vitest";
import { encodeFrame, type Frame, FrameReader, FrameType, ProtocolError } from "./frame.ts";
import {
  decodeDone,
  decodeExec,
  decodeExecResult,
  decodeFindResult,
  decodeNetlinkResult,
  decodeOccupantsResult,
  decodeRequest,
  decodeSandboxResult,
  encodeDone,
  encodeExec,
  encodeFind,
  encodeNetlink,
  encodeOccupants,
  encodeRequest,
  encodeRequire,
  encodeSandbox,
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

const path = fc.array(fc.stringMatching(/^\/[a-z]{1,8}$/), { maxLength: 3 });
const request = fc.record({ env, stdin: text });
const exec = fc.record({
  group: fc.nat(),
  type: text,
  searchPath: path,
  timeoutMs: fc.nat(),
  stdin: text,
  env,
});
const done = fc.record({ exitCode: fc.nat(255), stdout: text, stderr: text });

test("REQUEST, EXEC and DONE are decoded as they were encoded", () => {
  fc.assert(
    fc.property(request, exec, done, (sentRequest, sentExec, sentDone) => {
      const plain = <T>(message: T): T => structuredClone(message);
      expect(decodeRequest(parse(encodeRequest(sentRequest)))).toEqual(plain(sentRequest));
      expect(decodeExec(parse(encodeExec(sentExec)))).toEqual(plain(sentExec));
      expect(decodeDone(parse(encodeDone(sentDone)))).toEqual(plain(sentDone));
    }),
  );
});

test("environment values may contain = and ;, and may be empty", () => {
  const message = { stdin: "", env: { CNI_ARGS: "A=b;C=d=e", CNI_NETNS: "" } };
  expect(decodeRequest(parse(encodeRequest(message)))).toEqual(message);
});

test("NETLINK encodes path and bytes unchanged", () => {
  const frame = parse(encodeNetlink("/run/netns/x", Uint8Array.of(0, 255, 10)));
  expect(frame.type).toBe(FrameType.Netlink);
  expect(frame.fields.map((field) => field.toString("latin1"))).toEqual([
    "/run/netns/x",
    "\0\xff\n",
  ]);
});

test.each(["exited", "signaled", "timeout", "overflow", "missing", "refused", "failed"])(
  "EXEC_RESULT with the outcome %s is decoded",
  (outcome) => {
    const [code, stdout, stderr, message, elapsedUs] = [7, "out", "err", "why", 1500] as const;
    const frame = frameOf(3, outcome, String(code), stdout, stderr, message, String(elapsedUs));
    const result = { outcome, code, stdout, stderr, message, elapsedUs };
    expect(decodeExecResult(frame)).toEqual(result);
  },
);

test("NETLINK_RESULT is decoded with its bytes unchanged", () => {
  const bytes = Buffer.of(0, 200);
  const result = { errno: 2, bytes, message: "no such namespace", stage: "open" };
  const frame = frameOf(FrameType.NetlinkResult, "2", bytes, result.message, "open");
  expect(decodeNetlinkResult(frame)).toEqual(result);
});

test("FIND has the search path, then the types", () => {
  const { fields } = parse(encodeFind(["/opt/cni/bin", "/b"], ["ptp", "bridge"]));
  expect(fields.map(String)).toEqual(["/opt/cni/bin:/b", "ptp", "bridge"]);
});

test("encodeRequire() needs a frame for each 60 plugins, the limit of a frame of the shim", () => {
  const types = Array.from({ length: 61 }, (_, i) => `p${i}`);
  const frames = encodeRequire(["/x", "/y"], types).map(parse);
  expect(frames.map(({ type, fields }) => [type, fields.map(String)])).toEqual([
    [FrameType.Require, ["/x:/y", ...types.slice(0, 60)]],
    [FrameType.Require, ["/x:/y", "p60"]],
  ]);
  expect(encodeRequire(["/x"], [])).toEqual([]);
});

test.each([
  ["", []],
  [
    "c1@eth0/c-2.x@e@1/",
    [
      { containerId: "c1", ifName: "eth0" },
      { containerId: "c-2.x", ifName: "e@1" },
    ],
  ],
])("OCCUPANTS is encoded, and an OCCUPANTS_RESULT of %j is decoded", (names, keys) => {
  const { type, fields } = parse(encodeOccupants("/run//netns/x"));
  expect([type, ...fields.map(String)]).toEqual([FrameType.Occupants, "/run//netns/x"]);
  expect(decodeOccupantsResult(frameOf(FrameType.OccupantsResult, names))).toEqual(keys);
});

test.each(["ok", "busy", "gone", "refused"])(
  "SANDBOX is encoded, and a SANDBOX_RESULT with the outcome %s is decoded",
  (outcome) => {
    const { type, fields } = parse(
      encodeSandbox({ containerId: "c1", ifName: "eth0", netns: "/run/netns/x" }),
    );
    expect([type, ...fields.map(String)]).toEqual([
      FrameType.Sandbox,
      "c1",
      "eth0",
      "/run/netns/x",
    ]);
    const result = { outcome, message: "why", links: "lo/eth0/" };
    expect(decodeSandboxResult(frameOf(14, outcome, "why", "lo/eth0/"))).toEqual(result);
  },
);

const decoders: Readonly<Record<number, (frame: Frame) => unknown>> = {
  [FrameType.Request]: decodeRequest,
  [FrameType.ExecResult]: decodeExecResult,
  [FrameType.NetlinkResult]: decodeNetlinkResult,
  [FrameType.Done]: decodeDone,
  [FrameType.FindResult]: (frame) => decodeFindResult(frame, 1),
  [FrameType.SandboxResult]: decodeSandboxResult,
  [FrameType.OccupantsResult]: decodeOccupantsResult,
};

test.each<[string, number, string[], string]>([
  ["an answer for another number of plugins", 10, ["a"], "1 fields in the answer for 1 plugins"],
  ["an outcome that FIND cannot have", 10, ["exited", ""], "exited"],
  ["an unknown outcome of SANDBOX", 14, ["maybe", "", ""], "maybe"],
  ["no records", 16, [], "lacks field 0"],
  ["no links", 14, ["ok", ""], "lacks field 2"],
  ["an unknown stage", 5, ["2", "", "", "later"], "later"],
  ["no stage", 5, ["2", "", ""], "lacks field 3"],
  ["an unknown outcome", 3, ["exploded", "0", "", "", "", "0"], "exploded"],
  ["a missing field", 3, ["exited", "0", "", ""], "lacks field 4"],
  ["a negative number", 3, ["exited", "-1", "", "", "", "0"], '"-1", not a number'],
  ["a hexadecimal number", 6, ["0x1", "", ""], "not a number"],
  ["an empty number", 5, ["", "", ""], "not a number"],
  ["a number too large to be exact", 6, ["9007199254740993", "", ""], "not a number"],
  ["another protocol version", 1, ["1", ""], 'version "1", plexusd speaks "4"'],
  ["no version", 1, [], "version undefined"],
  ["an environment entry without a name", 1, ["4", "", "=x"], "has no name"],
  ["an environment entry without =", 1, ["4", "", "CNI_X"], "has no name"],
])("%s breaks the protocol", (...row) => {
  const [, type, fields, message] = row;
  const decode = () => decoders[type]?.(frameOf(type, ...fields));
  expect(decode).toThrow(ProtocolError);
  expect(decode).toThrow(message);
});

test.each(Object.entries(decoders))("a frame of a type other than %s is an error", (...row) => {
  const [type, decode] = row;
  expect(() => decode(frameOf(99, "2"))).toThrow(`type 99 where type ${type} was expected`);
});
