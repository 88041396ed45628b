import { rm, stat } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { EngineLab } from "#engine/testing/engine-lab.ts";
import { failed } from "#engine/testing/fake-plugins.ts";
import { eventually } from "#lib/testing/eventually.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { encodeFrame, FrameReader, FrameType } from "#protocol/frame.ts";
import { type DoneMessage, decodeDone, encodeRequest } from "#protocol/messages.ts";
import { CallServer } from "./call-server.ts";

let dir: string;
let path: string;
let lab: EngineLab;
const servers: CallServer[] = [];
const sockets: Socket[] = [];

beforeEach(async () => {
  dir = await temporaryDirectory();
  path = join(dir, "run", "plexus.sock");
  lab = new EngineLab();
});

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await Promise.all(servers.splice(0).map((server) => server.drain()));
});

async function listening(): Promise<CallServer> {
  const server = await CallServer.listen({
    socketPath: path,
    engine: lab.engine,
    logger: lab.logger,
  });
  servers.push(server);
  return server;
}

async function connected(): Promise<Socket> {
  const socket = connect(path);
  sockets.push(socket);
  await new Promise((resolve, reject) => socket.once("connect", resolve).once("error", reject));
  return socket;
}

/** A call that is answered with code 4, without any order: the engine knows no such command. */
const request = encodeRequest({
  env: { CNI_COMMAND: "PAUSE" },
  stdin: '{"cniVersion":"1.0.0","name":"n"}',
});

/** What the server answers on a socket; undefined when it closes without an answer. */
function answerOf(socket: Socket): Promise<DoneMessage | undefined> {
  const reader = new FrameReader();
  return new Promise((resolve) => {
    socket.on("data", (chunk: Buffer) => {
      const done = reader.push(chunk).find((frame) => frame.type === FrameType.Done);
      if (done !== undefined) resolve(decodeDone(done));
    });
    socket.on("close", () => resolve(undefined));
  });
}

async function served(): Promise<DoneMessage | undefined> {
  const socket = await connected();
  const answer = answerOf(socket);
  socket.write(request);
  return answer;
}

const codeOf = (answer: DoneMessage | undefined): unknown =>
  JSON.parse(answer?.stdout ?? "{}").code;

/** A call that stays in flight: its ADD waits for the shim's answer to the first order. */
async function inFlight(
  id = "c1",
): Promise<{ socket: Socket; answer: Promise<DoneMessage | undefined> }> {
  const socket = await connected();
  const answer = answerOf(socket);
  const env = { CNI_COMMAND: "ADD", CNI_CONTAINERID: id, CNI_NETNS: "/x", CNI_IFNAME: "eth0" };
  const conf = {
    cniVersion: "1.0.0",
    name: "n",
    type: "plexus",
    delegates: [{ cniVersion: "1.0.0", name: "d", type: "ptp" }],
  };
  const asked = new Promise((resolve) => socket.once("data", resolve));
  socket.write(encodeRequest({ env, stdin: JSON.stringify(conf) }));
  await asked;
  return { socket, answer };
}

const noNamespace = encodeFrame(FrameType.NetlinkResult, ["2", "", "no such namespace", "open"]);

/** A delegate that exited with 0 and printed nothing. */
const execResult = encodeFrame(FrameType.ExecResult, ["exited", "0", "", "", "", "1"]);
const busyError = '{"cniVersion":"1.0.0","code":5,"msg":"busy"}';
const busyResult = encodeFrame(FrameType.ExecResult, ["exited", "1", busyError, "", "", "1"]);

test("the call socket has mode 0600 [S-500]", async () => {
  await listening();
  expect((await stat(path)).mode & 0o777).toBe(0o600);
});

test("a server completes its call in flight after a second server has taken over the socket", async () => {
  const first = await listening();
  const { socket, answer } = await inFlight();
  const second = await listening();
  expect([first.inFlight, second.inFlight]).toEqual([1, 0]);
  socket.write(noNamespace);
  expect(codeOf(await answer)).toBe(8);
});

test("drain() serves new calls until those in flight are answered, and then refuses them", async () => {
  const server = await listening();
  const { socket, answer } = await inFlight();
  const draining = server.drain();
  expect(codeOf(await served())).toBe(4);
  expect(server.inFlight).toBe(1);
  socket.write(noNamespace);
  expect(codeOf(await answer)).toBe(8);
  await draining;
  expect(server.inFlight).toBe(0);
  await expect(connected()).rejects.toThrow(/ECONNREFUSED/);
});

test("drain() accepts no call after ten seconds, and serves those it has to their end", async () => {
  const server = await listening();
  const first = await inFlight();
  onTestFinished(() => void vi.useRealTimers());
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const draining = server.drain(new AbortController().signal);
  vi.advanceTimersByTime(9000);
  const last = await inFlight("c2");
  first.socket.write(noNamespace);
  expect(codeOf(await first.answer)).toBe(8);
  await vi.advanceTimersByTimeAsync(1000);
  await expect(connected()).rejects.toThrow(/ECONNREFUSED/);
  last.socket.write(noNamespace);
  expect(codeOf(await last.answer)).toBe(8);
  await draining;
  expect(lab.logger.at("warn")).toEqual([]);
});

test("drain() disconnects the shim of a call that hangs at the limit", async () => {
  const server = await listening();
  const { answer } = await inFlight();
  const limit = new AbortController();
  const draining = server.drain(limit.signal);
  limit.abort();
  await draining;
  expect([server.inFlight, await answer]).toEqual([0, undefined]);
  expect(lab.logger.at("warn")).toContain(
    "plexusd stops during calls: their shims roll back or detach",
  );
});

test("a shim that disconnects during its call is logged, and the next call is served", async () => {
  const server = await listening();
  const { socket } = await inFlight();
  socket.destroy();
  await expect.poll(() => server.inFlight).toBe(0);
  expect(lab.logger.at("warn")).toEqual(["the shim disconnected before its call was served"]);
  expect(codeOf(await served())).toBe(4);
});

test("a server whose socket another one has taken looks for its end, which that does not log", async () => {
  const first = await listening();
  const second = await listening();
  await first.ensureReachable();
  expect(first.notReadyReason()).toBe(`another process listens on ${path}`);
  await eventually(() =>
    expect(lab.logger.at("debug")).toContain("a client disconnected without a call"),
  );
  expect(lab.logger.at("warn")).toEqual(["no client reaches the call socket"]);
  await second.drain();
  await first.ensureReachable();
  expect(first.notReadyReason()).toBeUndefined();
  expect(codeOf(await served())).toBe(4);
});

test.each([
  ["garbage", Buffer.alloc(64, 255)],
  ["a frame that is not a request", encodeFrame(FrameType.Done, ["0", "", ""])],
])("a client that sends %s is disconnected and logged, and others are served", async (_, bytes) => {
  await listening();
  const socket = await connected();
  const answer = answerOf(socket);
  socket.write(bytes);
  expect(await answer).toBeUndefined();
  expect(lab.logger.at("error")).toEqual(["a shim violated the protocol"]);
  expect(codeOf(await served())).toBe(4);
});

test("ensureReachable() recreates a removed call socket, and connected shims are still served", async () => {
  const server = await listening();
  const before = await connected();
  await rm(path);
  await server.ensureReachable();
  expect(await served()).toMatchObject({ exitCode: 1 });
  const answer = answerOf(before);
  before.write(request);
  expect(await answer).toMatchObject({ exitCode: 1 });
});

test("a shim of another release is answered 'try again later', and logged", async () => {
  await listening();
  const socket = await connected();
  const answer = answerOf(socket);
  socket.write(encodeFrame(FrameType.Request, ["9", "{}"]));
  expect(codeOf(await answer)).toBe(11);
  expect(lab.logger.at("warn")).toEqual(["rejected a shim of another release"]);
  expect(lab.logger.at("error")).toEqual([]);
});

const foundResult = encodeFrame(FrameType.FindResult, ["found", ""]);

/** An agent on a new connection that answers orders with this result; `orders` has their types. */
async function agent(result: Buffer, env: Record<string, string> = {}) {
  const socket = await connected();
  const reader = new FrameReader();
  const orders: number[] = [];
  socket.on("data", (chunk: Buffer) => {
    for (const { type } of reader.push(chunk)) {
      orders.push(type);
      if (type === FrameType.Find) socket.write(foundResult);
      else if (type !== FrameType.Done)
        socket.write(type === FrameType.Exec ? result : noNamespace);
    }
  });
  const answer = answerOf(socket);
  const variables = { CNI_COMMAND: "AGENT", CNI_PATH: "/opt/cni/bin", ...env };
  socket.write(encodeRequest({ env: variables, stdin: "" }));
  return { orders, answer };
}

test("an agent executes the teardown of leftovers, stays connected, and ends when the server drains", async () => {
  await lab.add();
  lab.plugins.script("ptp DEL", failed(5, "busy"));
  expect(await lab.del()).toMatchObject({ exitCode: 1 });
  lab.advance(31_000);
  const server = await listening();
  const { orders, answer } = await agent(execResult);
  await eventually(() => expect(lab.records.keys).toEqual([]));
  expect(orders).toEqual([FrameType.Netlink, FrameType.Exec]);
  expect(server.inFlight).toBe(1);
  await server.drain();
  expect(await answer).toBeUndefined();
});

test.each(["", "attach"])("findByAgent() asks a connected agent of kind '%s'", async (kind) => {
  const server = await listening();
  expect(await server.findByAgent(["/opt/cni/bin"], ["ptp"])).toBeUndefined();
  const { orders } = await agent(execResult, { PLEXUS_AGENT: kind });
  await eventually(async () =>
    expect(await server.findByAgent(["/opt/cni/bin"], ["ptp"])).toMatchObject([
      { outcome: "found" },
    ]),
  );
  expect(orders[0]).toBe(FrameType.Find);
  for (const socket of sockets) socket.destroy();
  await eventually(() => expect(server.inFlight).toBe(0));
  expect(await server.findByAgent(["/opt/cni/bin"], ["ptp"])).toBeUndefined();
});

test.each([
  { left: false, result: execResult, answer: /^nothing is left over\n$/, exitCode: 0 },
  { left: true, result: execResult, answer: /^c1 \(c1@eth0\): detached\n$/, exitCode: 0 },
  { left: true, result: busyResult, answer: /^c1 \(c1@eth0\): remains: .*busy/, exitCode: 1 },
])("`plexus agent --once` is answered with $answer", async ({ left, result, answer, exitCode }) => {
  await lab.add();
  lab.plugins.script("ptp DEL", failed(5, "busy"));
  if (left) await lab.del();
  await listening();
  const once = await agent(result, { PLEXUS_AGENT: "once" });
  expect(await once.answer).toMatchObject({ exitCode, stdout: expect.stringMatching(answer) });
});
