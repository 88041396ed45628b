import { once } from "node:events";
import { mkdir, readdir, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { UnixSocketServer } from "./unix-socket-server.ts";

let dir: string;
let path: string;
let warnings: string[];

beforeEach(async () => {
  const root = await temporaryDirectory();
  dir = join(root, "run");
  path = join(dir, "test.sock");
  warnings = [];
});

/** A server that sends its name to every client, and closes the connection when the client does. */
async function listening(name = "one", maxConnections = 10): Promise<UnixSocketServer> {
  const log = (_: object, message: string): unknown => warnings.push(message);
  const server = await UnixSocketServer.listen({
    path,
    name: "test socket",
    createServer: () =>
      createServer((socket) => {
        // One that only looks whether somebody listens does not read.
        socket.on("error", () => undefined);
        socket.resume().write(name);
      }),
    maxConnections,
    logger: { warn: log, error: log },
  });
  onTestFinished(() => server.close());
  return server;
}

async function connected(): Promise<Socket> {
  const socket = connect(path);
  onTestFinished(() => void socket.destroy());
  await once(socket, "connect");
  return socket;
}

/** What the server that listens now sends. */
async function answer(): Promise<string> {
  const socket = await connected();
  socket.end();
  return text(socket);
}

async function unixSocket(name: string): Promise<Server> {
  await mkdir(dir, { recursive: true });
  const server = createServer().listen(join(dir, name));
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return server;
}

const modeOf = async (file: string): Promise<string> =>
  ((await stat(file)).mode & 0o777).toString(8);

test("listen() makes socket and directory accessible to root only, and leaves no other file", async () => {
  await listening();
  expect([await modeOf(path), await modeOf(dir)]).toEqual(["600", "700"]);
  expect(await readdir(dir)).toEqual(["test.sock"]);
});

test("listen() replaces the socket of a process that died", async () => {
  await unixSocket("old.sock");
  await rename(join(dir, "old.sock"), path);
  await listening();
  expect(await answer()).toBe("one");
});

test.each(["file", "directory"])("listen() rejects a %s at the path and keeps it", async (kind) => {
  await mkdir(kind === "file" ? dir : path, { recursive: true });
  if (kind === "file") await writeFile(path, "keep");
  await expect(listening()).rejects.toThrow(`${path} exists and is not a socket`);
  expect((await stat(path)).isSocket()).toBe(false);
  expect(await readdir(dir)).toEqual(["test.sock"]);
});

test("listen() removes stale sockets of a killed process, and no recent or foreign files", async () => {
  const longAgo = Date.now() / 1000 - 700;
  for (const name of ["test.sock.0a1b2c", "test.sock.0a1b2d", "other.sock.0a1b2c"]) {
    await unixSocket(name);
    if (name !== "test.sock.0a1b2d") await utimes(join(dir, name), longAgo, longAgo);
  }
  await writeFile(join(dir, "test.sock.ffffff"), "not a socket");
  await utimes(join(dir, "test.sock.ffffff"), longAgo, longAgo);
  await listening();
  expect((await readdir(dir)).toSorted()).toEqual([
    "other.sock.0a1b2c",
    "test.sock",
    "test.sock.0a1b2d",
    "test.sock.ffffff",
  ]);
});

test("a successor takes over, and closing the predecessor keeps the successor's socket", async () => {
  const first = await listening("first");
  await listening("second");
  await first.ensureReachable();
  expect(first.notReadyReason()).toBe(`another process listens on ${path}`);
  expect(await answer()).toBe("second");
  await first.close({ removeFile: true });
  expect(await answer()).toBe("second");
  expect(await readdir(dir)).toEqual(["test.sock"]);
});

test("a predecessor that lives takes over again when its successor has ended", async () => {
  const first = await listening("first");
  const successor = await unixSocket("successor.sock");
  await rename(join(dir, "successor.sock"), path);
  await first.ensureReachable();
  await first.ensureReachable();
  expect(warnings).toEqual(["no client reaches the test socket"]);
  successor.close();
  await expect(connected()).rejects.toThrow("ECONNREFUSED");
  await first.ensureReachable();
  expect(first.notReadyReason()).toBeUndefined();
  expect(await answer()).toBe("first");
  expect(warnings).toEqual(["no client reaches the test socket", "recreated the test socket"]);
});

test.each(["the file", "its directory"])("ensureReachable() restores %s", async (what) => {
  const server = await listening();
  const open = await connected();
  await rm(what === "the file" ? path : dir, { recursive: true });
  await server.ensureReachable();
  expect(server.notReadyReason()).toBeUndefined();
  expect(await answer()).toBe("one");
  expect(await modeOf(path)).toBe("600");
  expect(warnings).toEqual(["recreated the test socket"]);
  open.end();
  expect(await text(open)).toBe("one");
});

test("a socket that cannot be recreated makes the server not ready", async () => {
  const server = await listening();
  await rm(dir, { recursive: true });
  await writeFile(dir, "");
  await expect(server.ensureReachable()).rejects.toThrow("EEXIST");
  expect(server.notReadyReason()).toBe(`the test socket ${path} was removed`);
});

test("close() waits for open connections, refuses new ones and does not recreate the socket", async () => {
  const server = await listening();
  const open = await connected();
  let isClosed = false;
  const closed = server.close().then(() => {
    isClosed = true;
  });
  await expect(connected()).rejects.toThrow("ECONNREFUSED");
  await rm(path);
  await server.ensureReachable();
  expect([isClosed, await readdir(dir)]).toEqual([false, []]);
  open.end();
  await closed;
});

test("connections beyond the limit are closed", async () => {
  await listening("one", 2);
  const kept = [await connected(), await connected()];
  expect(await answer()).toBe("");
  for (const socket of kept) socket.end();
  expect(await Promise.all(kept.map((socket) => text(socket)))).toEqual(["one", "one"]);
});
