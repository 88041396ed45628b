import { createServer } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import * as received from "./message.ts";
import { message, text } from "./testing/message-types.ts";
import { ScriptedServer, status } from "./testing/scripted-server.ts";
import { GrpcError, GrpcStatus, openUnaryClient } from "./unary-client.ts";
import { MessageError } from "./wire.ts";

const question = message({ text: text(1) });
const scripted = { path: "/test.v1.Oracle/Ask", request: question, response: question };
const ask = { path: scripted.path, decode: received.message({ text: received.text(1) }) };
const request = question.encode({});

async function client(socketPath: string) {
  const opened = await openUnaryClient(socketPath);
  onTestFinished(() => opened[Symbol.dispose]());
  return opened;
}

async function failureOf(calling: Promise<unknown>): Promise<GrpcError> {
  const error = await calling.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof GrpcError)) throw new Error(`no GrpcError but ${error}`);
  return error;
}

test("call() rejects with the server's status, without a retry", async () => {
  const server = await ScriptedServer.create();
  await server
    .answer(scripted, () => {
      throw status(GrpcStatus.ResourceExhausted, "rejected by rate limit");
    })
    .start();
  const oracle = await client(server.socketPath);
  const failure = await failureOf(oracle.call(ask, { request, timeoutMs: 5000 }));
  expect(failure).toMatchObject({ status: 8, details: "rejected by rate limit" });
  expect(failure.message).toBe("/test.v1.Oracle/Ask: RESOURCE_EXHAUSTED: rejected by rate limit");
  expect(server.requests).toHaveLength(1);
});

test("call() rejects if method or server is missing, and names the server's socket", async () => {
  const server = await ScriptedServer.create();
  await server.answer({ ...scripted, path: "/test.v1.Oracle/Listen" }, () => ({})).start();
  const { socketPath: nowhere } = await ScriptedServer.create();
  const [without, unreachable] = await Promise.all(
    [server.socketPath, nowhere].map(async (path) =>
      failureOf((await client(path)).call(ask, { request, timeoutMs: 5000 })),
    ),
  );
  expect(without?.status).toBe(GrpcStatus.Unimplemented);
  expect(unreachable?.status).toBe(GrpcStatus.Unavailable);
  expect(unreachable?.message).toContain(nowhere);
});

test("call() rejects when the answer takes too long, and when its signal fires", async () => {
  const server = await ScriptedServer.create();
  await server.answer(scripted, () => new Promise<never>(() => undefined)).start();
  const oracle = await client(server.socketPath);
  const slow = await failureOf(oracle.call(ask, { request, timeoutMs: 100 }));
  expect(slow.status).toBe(GrpcStatus.DeadlineExceeded);
  const stop = new AbortController();
  const stopped = oracle.call(ask, { request, timeoutMs: 20_000, signal: stop.signal });
  stop.abort();
  expect((await failureOf(stopped)).status).toBe(GrpcStatus.Cancelled);
  const late = oracle.call(ask, { request, timeoutMs: 20_000, signal: stop.signal });
  expect((await failureOf(late)).status).toBe(GrpcStatus.Cancelled);
});

test("call() rejects an invalid response, and one that is too long", async () => {
  const server = await ScriptedServer.create();
  const answers = [
    Buffer.from("ff", "hex"),
    question.encode({ text: "x".repeat(16 * 1024 * 1024) }),
  ];
  await server.answer(scripted, () => answers.shift()!).start();
  const oracle = await client(server.socketPath);
  const unreadable = oracle.call(ask, { request, timeoutMs: 5000 });
  await expect(unreadable).rejects.toThrow(MessageError);
  await expect(unreadable).rejects.toThrow("/test.v1.Oracle/Ask: the response is not readable");
  expect((await failureOf(oracle.call(ask, { request, timeoutMs: 5000 }))).status).toBe(
    GrpcStatus.ResourceExhausted,
  );
});

test.each(["HTTP/1.1 400 Bad Request\r\n\r\n", "\0\0\0\0\0garbage", ""])(
  "call() rejects when a server that speaks no gRPC answers %j",
  async (bytes) => {
    const { directory } = await ScriptedServer.create();
    const socketPath = join(directory, "other.sock");
    const other = createServer((connection) => {
      connection.on("error", () => undefined);
      connection.end(bytes);
    });
    await new Promise<void>((resolve) => other.listen(socketPath, resolve));
    onTestFinished(() => void other.close());
    const oracle = await client(socketPath);
    const failure = await failureOf(oracle.call(ask, { request, timeoutMs: 2000 }));
    expect([GrpcStatus.Unavailable, GrpcStatus.DeadlineExceeded]).toContain(failure.status);
  },
);

test("a new client reaches a server that was restarted at its socket", async () => {
  const server = await ScriptedServer.create();
  await server.answer(scripted, ({ text }) => ({ text })).start();
  const oracle = await client(server.socketPath);
  await oracle.call(ask, { request, timeoutMs: 5000 });
  server.stop();
  await failureOf(oracle.call(ask, { request, timeoutMs: 5000 }));
  await server.start();
  const next = await client(server.socketPath);
  expect(
    await next.call(ask, { request: question.encode({ text: "again" }), timeoutMs: 5000 }),
  ).toEqual({ text: "again" });
});
