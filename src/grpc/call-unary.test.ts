import { createServer } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { callUnary, GrpcError, GrpcStatus } from "./call-unary.ts";
import * as received from "./message.ts";
import { message, text } from "./testing/message-types.ts";
import { ScriptedServer, status } from "./testing/scripted-server.ts";
import { MessageError } from "./wire.ts";

const question = message({ text: text(1) });
const scripted = { path: "/test.v1.Oracle/Ask", request: question, response: question };
const ask = { path: scripted.path, decode: received.message({ text: received.text(1) }) };
const request = question.encode({});

function asking(socketPath: string, more: { timeoutMs?: number; signal?: AbortSignal } = {}) {
  return callUnary(ask, { socketPath, request, timeoutMs: 5000, ...more });
}

async function failureOf(calling: Promise<unknown>): Promise<GrpcError> {
  const error = await calling.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof GrpcError)) throw new Error(`no GrpcError but ${error}`);
  return error;
}

test("callUnary() rejects with the server's status, without a retry", async () => {
  const server = await ScriptedServer.create();
  await server
    .answer(scripted, () => {
      throw status(GrpcStatus.ResourceExhausted, "rejected by rate limit");
    })
    .start();
  const failure = await failureOf(asking(server.socketPath));
  expect(failure).toMatchObject({ status: 8, details: "rejected by rate limit" });
  expect(failure.message).toBe("/test.v1.Oracle/Ask: RESOURCE_EXHAUSTED: rejected by rate limit");
  expect(server.requests).toHaveLength(1);
});

test("callUnary() rejects if method or server is missing, and names the server's socket", async () => {
  const server = await ScriptedServer.create();
  await server.answer({ ...scripted, path: "/test.v1.Oracle/Listen" }, () => ({})).start();
  const { socketPath: nowhere } = await ScriptedServer.create();
  const [without, unreachable] = await Promise.all(
    [server.socketPath, nowhere].map((path) => failureOf(asking(path))),
  );
  expect(without?.status).toBe(GrpcStatus.Unimplemented);
  expect(unreachable?.status).toBe(GrpcStatus.Unavailable);
  expect(unreachable?.message).toContain(nowhere);
});

test("callUnary() rejects when the answer takes too long, and when its signal fires", async () => {
  const server = await ScriptedServer.create();
  await server.answer(scripted, () => new Promise<never>(() => undefined)).start();
  const slow = await failureOf(asking(server.socketPath, { timeoutMs: 100 }));
  expect(slow.status).toBe(GrpcStatus.DeadlineExceeded);
  const stop = new AbortController();
  const waiting = { timeoutMs: 20_000, signal: stop.signal };
  const stopped = asking(server.socketPath, waiting);
  setTimeout(() => stop.abort(), 100);
  expect((await failureOf(stopped)).status).toBe(GrpcStatus.Cancelled);
  const late = asking(server.socketPath, waiting);
  expect((await failureOf(late)).status).toBe(GrpcStatus.Cancelled);
});

test("callUnary() rejects an invalid response, and one that is too long", async () => {
  const server = await ScriptedServer.create();
  const answers = [
    Buffer.from("ff", "hex"),
    question.encode({ text: "x".repeat(16 * 1024 * 1024) }),
  ];
  await server.answer(scripted, () => answers.shift()!).start();
  const unreadable = asking(server.socketPath);
  await expect(unreadable).rejects.toThrow(MessageError);
  await expect(unreadable).rejects.toThrow("/test.v1.Oracle/Ask: the response is not readable");
  expect((await failureOf(asking(server.socketPath))).status).toBe(GrpcStatus.ResourceExhausted);
});

test.each(["HTTP/1.1 400 Bad Request\r\n\r\n", "\0\0\0\0\0garbage", ""])(
  "callUnary() rejects when a server that speaks no gRPC answers %j",
  async (bytes) => {
    const { directory } = await ScriptedServer.create();
    const socketPath = join(directory, "other.sock");
    const other = createServer((connection) => {
      connection.on("error", () => undefined);
      connection.end(bytes);
    });
    await new Promise<void>((resolve) => other.listen(socketPath, resolve));
    onTestFinished(() => void other.close());
    const failure = await failureOf(asking(socketPath, { timeoutMs: 2000 }));
    expect([GrpcStatus.Unavailable, GrpcStatus.DeadlineExceeded]).toContain(failure.status);
  },
);

test("callUnary() reaches a server that was restarted at its socket", async () => {
  const server = await ScriptedServer.create();
  await server.answer(scripted, ({ text }) => ({ text })).start();
  await asking(server.socketPath);
  server.stop();
  await failureOf(asking(server.socketPath));
  await server.start();
  const again = { socketPath: server.socketPath, request: question.encode({ text: "again" }) };
  expect(await callUnary(ask, { ...again, timeoutMs: 5000 })).toEqual({ text: "again" });
});
