import { copyFileSync, existsSync, mkdirSync, renameSync, statSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import os, { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { eventually } from "#lib/testing/eventually.ts";
import { FrameReader } from "#protocol/frame.ts";
import { decodeDone, encodeRequest } from "#protocol/messages.ts";
import { FurtherCalls, type FurtherCallsOptions, standaloneSocket } from "./further-calls.ts";

let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "plexus-further-"));
  onTestFinished(() => rm(dir, { recursive: true }));
  writeFileSync(join(dir, "executable"), "");
});

const socketPath = (): string => standaloneSocket(join(dir, "run/plexus.sock"));

/** A process that answers each call with its name, and stays for a time. */
async function furtherCalls(name: string, lingerMs = 100): Promise<FurtherCalls> {
  const calls = new FurtherCalls(options(name));
  calls.linger(lingerMs);
  await calls.during(Promise.resolve());
  if (lingerMs >= 100) await eventually(async () => expect(await call()).toBe(name));
  return calls;
}

function options(name: string): FurtherCallsOptions {
  return {
    socketPath: socketPath(),
    executable: join(dir, "executable"),
    serve: async (session) => {
      const { env } = await session.request(1000);
      if (env.CNI_COMMAND === "FAIL") throw new Error("fails");
      await new Promise((resolve) => setTimeout(resolve, Number(env.CNI_COMMAND)));
      await session.done({ exitCode: 0, stdout: name, stderr: "" });
    },
  };
}

/** The answer of the process at the socket to a call that takes that time; undefined if it declines. */
function call(milliseconds: number | "FAIL" = 0): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    const socket = connect(socketPath());
    const reader = new FrameReader();
    socket.on("data", (chunk: Buffer) => {
      const [done] = reader.push(chunk);
      if (done !== undefined) resolve(decodeDone(done).stdout);
    });
    socket.on("error", (error) =>
      error.message.includes("EPIPE") ? resolve(undefined) : reject(error),
    );
    socket.on("close", () => resolve(undefined));
    socket.write(encodeRequest({ env: { CNI_COMMAND: String(milliseconds) }, stdin: "" }));
  });
}

test("calls are served until there was none for the time, several at once", async () => {
  const calls = await furtherCalls("first");
  for (let n = 0; n < 4; n++) {
    expect(await Promise.all([call(60), call(60)])).toEqual(["first", "first"]);
  }
  await calls.whenEnded();
  await expect(call()).rejects.toThrow("ENOENT");
});

test("only root can connect [S-121]", async () => {
  await furtherCalls("first");
  const modes = [socketPath(), dirname(socketPath())].map((path) => statSync(path).mode & 0o777);
  expect(modes).toEqual([0o600, 0o700]);
});

test("with 0, no further call is served, and a call that runs is waited for", async () => {
  const calls = await furtherCalls("first", 0);
  await calls.whenEnded();
  expect(existsSync(socketPath())).toBe(false);
});

test("a call that fails ends its connection, and no other call", async () => {
  await furtherCalls("first");
  expect(await Promise.all([call(50), call("FAIL"), call(50)])).toEqual([
    "first",
    undefined,
    "first",
  ]);
});

test("of a burst of processes, one stays", async () => {
  const first = await furtherCalls("first");
  const second = new FurtherCalls(options("second"));
  second.linger(60_000);
  await second.during(Promise.resolve());
  await second.whenEnded();
  expect(await call()).toBe("first");
  await first.whenEnded();
});

test("a process that has lost its socket ends", async () => {
  const first = await furtherCalls("first", 60_000);
  const other = createServer((socket) => socket.destroy());
  onTestFinished(() => void other.close());
  await new Promise<void>((resolve) => other.listen(`${socketPath()}.other`, resolve));
  await Promise.all([
    call(100),
    eventually(() => expect(statSync(socketPath()).isSocket()).toBe(true)).then(() =>
      renameSync(`${socketPath()}.other`, socketPath()),
    ),
  ]);
  await first.whenEnded();
  expect(await call()).toBeUndefined();
});

test("a process that cannot listen ends after its own call", async () => {
  mkdirSync(socketPath(), { recursive: true });
  const calls = await furtherCalls("first", 10);
  await calls.whenEnded();
});

test.each<[string, () => void]>([
  [
    "its executable was replaced",
    () => {
      copyFileSync(join(dir, "executable"), join(dir, "new"));
      renameSync(join(dir, "new"), join(dir, "executable"));
    },
  ],
  ["it is ten minutes old", () => later(600, 600)],
  ["the machine was suspended, as its clock stood still", () => later(60, 0)],
])("no call is served any more after %s", async (_, happen) => {
  const calls = await furtherCalls("first", 60_000);
  expect(await call()).toBe("first");
  happen();
  expect(await call()).toBeUndefined();
  await calls.whenEnded();
});

function later(sinceBootS: number, awakeS: number): void {
  const [uptimeS, nowMs] = [os.uptime(), performance.now()];
  onTestFinished(() => void vi.restoreAllMocks());
  vi.spyOn(os, "uptime").mockReturnValue(uptimeS + sinceBootS);
  vi.spyOn(performance, "now").mockReturnValue(nowMs + awakeS * 1000);
}
