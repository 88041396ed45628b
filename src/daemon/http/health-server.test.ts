import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { expect, test } from "vitest";
import { eventually } from "#lib/testing/eventually.ts";
import { startHealthServer } from "./health-server.ts";
import { OptionalServer } from "./http-server.ts";
import { createMetrics } from "./metrics.ts";

async function serve(readiness: () => readonly string[] = () => []) {
  const metrics = createMetrics(() => "serving");
  const address = { host: "127.0.0.1", port: 0 };
  const server = await startHealthServer({ address, readiness, metrics });
  const url = `http://127.0.0.1:${server.address.port}`;
  return { server, url, [Symbol.asyncDispose]: () => server.close() };
}

test("serves /healthz, /readyz with every reason, and /metrics, and nothing else [S-504]", async () => {
  const reasons = ["caches are not synced", "no primary CNI"];
  await using running = await serve(() => reasons);
  const ask = async (path: string, method = "GET") => {
    const answer = await fetch(`${running.url}${path}`, { method });
    return {
      status: answer.status,
      type: answer.headers.get("content-type"),
      text: await answer.text(),
    };
  };
  expect(await ask("/healthz")).toMatchObject({ status: 200, text: "ok\n" });
  const text = "not ready: caches are not synced\nnot ready: no primary CNI\n";
  expect(await ask("/readyz")).toMatchObject({ status: 503, text });
  reasons.length = 0;
  expect(await ask("/readyz?verbose")).toMatchObject({ status: 200 });
  expect(await ask("/metrics")).toMatchObject({
    type: expect.stringContaining("text/plain; version=0.0.4"),
    text: expect.stringContaining("# TYPE plexus_build_info gauge"),
  });
  expect(await ask("/secrets")).toMatchObject({ status: 404 });
  expect(await ask("/metrics", "POST")).toMatchObject({ status: 405 });
});

test.each([
  ["that send nothing", ""],
  ["that do not end their request", "GET /metrics HTTP/1.1\r\nHost: a\r\n"],
  ["that are kept open after their answer", "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"],
])("probes are answered despite 200 connections %s", async (_what, sent) => {
  await using running = await serve();
  const sockets = await openMany(running.server.address, sent);
  const options = { signal: AbortSignal.timeout(1000) };
  for (const page of ["healthz", "readyz", "metrics"]) {
    expect((await fetch(`${running.url}/${page}`, options)).status).toBe(200);
  }
  await eventually(() => expect(sockets.filter((socket) => socket.closed)).not.toEqual([]));
  for (const socket of sockets) socket.destroy();
});

/** Connections that all have sent the text. */
async function openMany(address: { host: string; port: number }, text: string): Promise<Socket[]> {
  const sockets = Array.from({ length: 200 }, () => connect(address.port, address.host));
  for (const socket of sockets) socket.on("error", () => undefined).resume();
  await Promise.all(sockets.map((socket) => once(socket, "connect")));
  for (const socket of sockets) socket.write(text);
  return sockets;
}

test("a port that is taken is reported once, and used when it is free", async () => {
  const running = await serve();
  const { address } = running.server;
  const problems: string[] = [];
  const metrics = createMetrics(() => "serving");
  const open = () => startHealthServer({ address, readiness: () => [], metrics });
  const server = new OptionalServer(open, (problem) => problems.push(problem));
  const taken = `cannot serve health and metrics on 127.0.0.1:${address.port}: listen EADDRINUSE`;
  for (let i = 0; i < 2; i++) await expect(server.ensureReachable()).rejects.toThrow(taken);
  expect(problems).toHaveLength(1);
  await running.server.close();
  await Promise.all([server.ensureReachable(), server.ensureReachable()]);
  expect((await fetch(`http://127.0.0.1:${address.port}/healthz`)).status).toBe(200);
  await server.close();
  await server.ensureReachable();
  await expect(fetch(`http://127.0.0.1:${address.port}/healthz`)).rejects.toThrow("fetch failed");
});
