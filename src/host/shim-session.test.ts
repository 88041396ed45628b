import { connect, createServer } from "node:net";
import { join } from "node:path";
import { duplexPair } from "node:stream";
import { expect, onTestFinished, test, vi } from "vitest";
import { CniError } from "#cni/error.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { HostGoneError, NetnsError } from "#engine/ports/host.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { encodeFrame, type Frame, FrameReader, FrameType, ProtocolError } from "#protocol/frame.ts";
import { decodeDone, decodeExec, encodeRequest } from "#protocol/messages.ts";
import { ShimSession } from "./shim-session.ts";

const request = { env: { CNI_COMMAND: "ADD" }, stdin: "{}" };
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const order = (type: string): DelegateCall => ({
  type,
  searchPath: ["/opt/cni/bin"],
  env: { CNI_COMMAND: "ADD" },
  stdin: "{}",
  timeoutMs: 1000,
});

const result = (stdout: string): Buffer =>
  encodeFrame(FrameType.ExecResult, ["exited", "0", stdout, "", "", "12"]);

/** A session and the shim at its other end, which has sent its request. */
function connected(isRequested = true): {
  session: ShimSession;
  send: (...bytes: Buffer[]) => Promise<void>;
  received: Frame[];
  close: () => Promise<void>;
  shim: NodeJS.ReadWriteStream & { destroy(error?: Error): unknown };
} {
  const [ours, theirs] = duplexPair();
  const reader = new FrameReader();
  const received: Frame[] = [];
  theirs.on("error", () => undefined);
  theirs.on("data", (chunk: Buffer) => received.push(...reader.push(chunk)));
  if (isRequested) theirs.write(encodeRequest(request));
  return {
    session: new ShimSession(ours),
    received,
    shim: theirs,
    send: async (...bytes) => {
      for (const each of bytes) theirs.write(each);
      await turn();
    },
    close: async () => {
      theirs.end();
      await turn();
    },
  };
}

test("a shim that had gone before this process was scheduled again is gone two turns after its request", async () => {
  const dir = await temporaryDirectory();
  const server = createServer();
  const accepted = new Promise<ShimSession>((resolve) => {
    server.on("connection", (socket) => resolve(new ShimSession(socket)));
  });
  server.listen(join(dir, "socket"));
  onTestFinished(() => void server.close());
  const shim = connect(join(dir, "socket"), () => shim.end(encodeRequest(request)));
  const session = await accepted;
  await session.request();
  await turn();
  await turn();
  expect(session.gone.aborted).toBe(true);
});

test("request() returns a request that arrives in one chunk, before or after the call", async () => {
  const before = connected(false);
  await before.send(encodeRequest(request));
  expect(await before.session.request()).toEqual(request);
  const after = connected(false);
  const asked = after.session.request();
  await after.send(encodeRequest(request));
  expect(await asked).toEqual(request);
});

test("request() times out without a request, and the shim then counts as disconnected", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const { session } = connected(false);
  const asked = expect(session.request()).rejects.toThrow("no request within 10000 ms");
  await vi.advanceTimersByTimeAsync(10_000);
  await asked;
  expect(session.gone.aborted).toBe(true);
  await expect(session.exec(order("ptp"))).rejects.toThrow(HostGoneError);
});

test("sendAlive() sends a frame at once and each second, until the answer", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const { session, received } = connected();
  session.sendAlive();
  await vi.advanceTimersByTimeAsync(2500);
  const alive = () => received.filter(({ type }) => type === FrameType.Alive).length;
  expect(alive()).toBe(3);
  await session.done({ exitCode: 0, stdout: "", stderr: "" });
  await vi.advanceTimersByTimeAsync(2500);
  expect(alive()).toBe(3);
});

test("request() rejects another protocol version, names both, and tells the runtime to try again", async () => {
  const { session, send, received } = connected(false);
  const asked = session.request();
  await Promise.all([
    expect(asked).rejects.toThrow(/version "9", plexusd speaks "4"/),
    send(encodeFrame(FrameType.Request, ["9", '{"cniVersion":"1.0.0"}', "CNI_COMMAND=ADD"])),
  ]);
  await turn();
  const [answer] = received.map(decodeDone);
  expect(answer).toMatchObject({ exitCode: 75, stderr: "" });
  expect(JSON.parse(answer?.stdout ?? "")).toEqual({
    cniVersion: "1.0.0",
    code: 11,
    msg: expect.stringContaining("different releases"),
    details: "reason=DaemonUnavailable",
  });
});

test("exec() sends the order and returns the delegate's outcome", async () => {
  const { session, send, received } = connected();
  const running = session.exec(order("ptp"));
  await turn();
  expect(received.map(decodeExec)).toEqual([{ group: 0, ...order("ptp") }]);
  await send(
    encodeFrame(FrameType.ExecResult, [
      "timeout",
      "0",
      "half",
      "log",
      "killed after 1 s",
      "1000000",
    ]),
  );
  expect(await running).toEqual({
    outcome: "timeout",
    code: 0,
    stdout: "half",
    stderr: "log",
    message: "killed after 1 s",
    elapsedUs: 1_000_000,
  });
});

test("exec() sends orders without waiting for earlier answers, and each gets its own answer", async () => {
  const { session, send, received } = connected();
  const runs = ["a", "b", "c"].map((type) => session.exec(order(type)));
  await turn();
  expect(received.map((frame) => decodeExec(frame).type)).toEqual(["a", "b", "c"]);
  await send(result("of a"), result("of b"));
  await send(result("of c"));
  expect((await Promise.all(runs)).map((outcome) => outcome.stdout)).toEqual([
    "of a",
    "of b",
    "of c",
  ]);
});

test("exec() sends the required plugins before its order, and gets the order's answer", async () => {
  const { session, send, received } = connected();
  const run = session.exec({ ...order("a"), requires: ["b", "c"] });
  await turn();
  expect(received.map(({ type }) => type)).toEqual([FrameType.Require, FrameType.Exec]);
  expect(received[0]?.fields.slice(1).map(String)).toEqual(["b", "c"]);
  await send(result("of a"));
  expect(await run).toMatchObject({ stdout: "of a" });
});

test("netlink() sends path and bytes and returns the bytes of the answer", async () => {
  const { session, send, received } = connected();
  const asked = session.netlink("/run/netns/x", Uint8Array.of(1, 0, 2));
  await turn();
  expect(received[0]).toMatchObject({ type: FrameType.Netlink });
  expect(received[0]?.fields.map((field) => [...field])).toEqual([
    [...Buffer.from("/run/netns/x")],
    [1, 0, 2],
  ]);
  await send(encodeFrame(FrameType.NetlinkResult, ["0", Buffer.of(9, 0), "", "done"]));
  expect([...(await asked)]).toEqual([9, 0]);
});

test("occupants() sends a path and returns the records that the shim names", async () => {
  const { session, send, received } = connected();
  const asked = session.occupants("/run/netns/x");
  await turn();
  expect(received[0]).toMatchObject({ type: FrameType.Occupants });
  expect(received[0]?.fields.map(String)).toEqual(["/run/netns/x"]);
  await send(encodeFrame(FrameType.OccupantsResult, ["c1@eth0/"]));
  expect(await asked).toEqual([{ containerId: "c1", ifName: "eth0" }]);
});

test("find() and netlink() take one round trip if called together", async () => {
  const { session, send, received } = connected();
  const answers = Promise.all([
    session.netlink("/x", Uint8Array.of(1)),
    session.find(["/opt/cni/bin", "/b"], ["ptp", "none", "bad"]),
  ]);
  await turn();
  expect(received.map((frame) => frame.type)).toEqual([FrameType.Netlink, FrameType.Find]);
  expect(received[1]?.fields.map(String)).toEqual(["/opt/cni/bin:/b", "ptp", "none", "bad"]);
  await send(
    encodeFrame(FrameType.NetlinkResult, ["0", Buffer.of(7), "", "done"]),
    encodeFrame(FrameType.FindResult, ["found", "", "missing", "no such", "refused", "mode"]),
  );
  expect(await answers).toEqual([
    Buffer.of(7),
    [
      { outcome: "found", message: "" },
      { outcome: "missing", message: "no such" },
      { outcome: "refused", message: "mode" },
    ],
  ]);
});

test("find() sends several orders for more than 60 types, and returns the answers in order", async () => {
  const { session, send, received } = connected();
  const types = Array.from({ length: 61 }, (_, i) => `p${i}`);
  const asked = session.find(["/x"], types);
  await turn();
  expect(received.map(({ fields }) => fields.slice(1).map(String))).toEqual([
    types.slice(0, 60),
    ["p60"],
  ]);
  await send(
    encodeFrame(
      FrameType.FindResult,
      types.slice(0, 60).flatMap(() => ["found", ""]),
    ),
    encodeFrame(FrameType.FindResult, ["missing", "none"]),
  );
  const found = await asked;
  expect(found).toHaveLength(61);
  expect(found[60]).toEqual({ outcome: "missing", message: "none" });
  expect(await session.find(["/x"], [])).toEqual([]);
});

test.each([
  ...[2, 20, 40, 3, 22].map((errno) => ({ stage: "open", errno, isGone: true })),
  { stage: "open", errno: 13, isGone: false },
  { stage: "open", errno: 24, isGone: false },
  { stage: "request", errno: 2, isGone: false },
])("netlink() fails at stage $stage with errno $errno, gone: $isGone", async (failure) => {
  const { stage, errno, isGone } = failure;
  const { session, send } = connected();
  const asked = session.netlink("/x", Uint8Array.of());
  const error = isGone ? { constructor: NetnsError, errno } : { constructor: CniError, code: 5 };
  await Promise.all([
    expect(asked).rejects.toThrow(expect.objectContaining({ ...error, message: "why" })),
    send(encodeFrame(FrameType.NetlinkResult, [String(errno), "", "why", stage])),
  ]);
  const next = session.exec(order("ptp"));
  await turn();
  await send(result("ok"));
  expect(await next).toMatchObject({ stdout: "ok" });
});

test("exec() fails if its answer is invalid, and the next order is still served", async () => {
  const { session, send } = connected();
  const first = session.exec(order("a"));
  const second = session.exec(order("b"));
  await Promise.all([
    expect(first).rejects.toThrow(ProtocolError),
    send(encodeFrame(FrameType.ExecResult, ["exploded", "0", "", "", "", "0"])),
  ]);
  await send(result("b"));
  expect(await second).toMatchObject({ stdout: "b" });
});

test.each(["ends", "breaks"])("all orders reject when the connection %s", async (how) => {
  const { session, shim, close, received } = connected();
  const orders = [
    session.exec(order("a")),
    session.netlink("/x", Uint8Array.of()),
    session.exec(order("b")),
  ];
  const settled = Promise.allSettled(orders);
  await turn();
  if (how === "ends") await close();
  else shim.destroy(new Error("ECONNRESET"));
  const outcomes = await settled;
  expect(outcomes.map((o) => o.status === "rejected" && o.reason instanceof HostGoneError)).toEqual(
    [true, true, true],
  );
  expect(session.gone.aborted).toBe(true);
  await expect(session.exec(order("c"))).rejects.toThrow(HostGoneError);
  await expect(session.done({ exitCode: 0, stdout: "", stderr: "" })).rejects.toThrow(
    HostGoneError,
  );
  expect(received).toHaveLength(3);
});

test("an unsolicited frame ends the session instead of counting as the next answer", async () => {
  const { session, send } = connected();
  await send(result("stray"));
  await expect(session.exec(order("a"))).rejects.toThrow(/unexpected frame of type 3/);
  expect(session.gone.aborted).toBe(true);
});

test("bytes that are not a frame end the session with a protocol error", async () => {
  const { session, send } = connected();
  const running = session.exec(order("a"));
  await Promise.all([expect(running).rejects.toThrow(ProtocolError), send(Buffer.alloc(8, 255))]);
  expect(session.gone.aborted).toBe(true);
});

test("done() sends the answer and closes the connection", async () => {
  const { session, shim, received } = connected();
  const ended = new Promise((resolve) => shim.once("end", resolve));
  await session.done({ exitCode: 1, stdout: "out", stderr: "err" });
  await ended;
  expect(received.map(decodeDone)).toEqual([{ exitCode: 1, stdout: "out", stderr: "err" }]);
});
