import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { expect, test, vi } from "vitest";
import { startHealthServer } from "./health-server.ts";
import { createMetrics } from "./metrics.ts";

async function serve(readiness: () => readonly string[] = () => []) {
  const metrics = createMetrics({ processMetrics: false });
  const address = { host: "127.0.0.1", port: 0 };
  const server = await startHealthServer({ address, readiness, metrics });
  const url = `http://127.0.0.1:${server.address.port}`;
  return { server, url, [Symbol.asyncDispose]: () => server.close() };
}

test("/healthz answers as long as the process does", async () => {
  await using running = await serve(() => ["the pods have not been listed yet"]);
  const answer = await fetch(`${running.url}/healthz`);
  expect([answer.status, await answer.text()]).toEqual([200, "ok\n"]);
});

test("/readyz gives every reason for not being ready", async () => {
  const reasons = ["caches are not synced", "no primary CNI"];
  await using running = await serve(() => reasons);
  const answer = await fetch(`${running.url}/readyz`);
  expect([answer.status, await answer.text()]).toEqual([
    503,
    "not ready: caches are not synced\nnot ready: no primary CNI\n",
  ]);
  reasons.length = 0;
  expect((await fetch(`${running.url}/readyz?verbose`)).status).toBe(200);
});

test("/metrics is in Prometheus's text format", async () => {
  await using running = await serve();
  const answer = await fetch(`${running.url}/metrics`);
  expect(answer.headers.get("content-type")).toContain("text/plain; version=0.0.4");
  expect(await answer.text()).toContain("# TYPE plexus_build_info gauge");
});

test("anything else is refused [S-504]", async () => {
  await using running = await serve();
  expect((await fetch(`${running.url}/secrets`)).status).toBe(404);
  expect((await fetch(`${running.url}/metrics`, { method: "POST" })).status).toBe(405);
});

test.each([
  ["that send nothing", ""],
  ["that do not end their request", "GET /metrics HTTP/1.1\r\nHost: a\r\n"],
  ["that are kept open after their answer", "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"],
])("probes are answered whatever 200 connections do %s", async (_what, sent) => {
  await using running = await serve();
  const sockets = await openMany(running.server.address, sent);
  const options = { signal: AbortSignal.timeout(1000) };
  for (const page of ["healthz", "readyz", "metrics"]) {
    expect((await fetch(`${running.url}/${page}`, options)).status).toBe(200);
  }
  await vi.waitFor(() => expect(sockets.filter((socket) => socket.closed)).not.toEqual([]));
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

test("an address that is taken is named", async () => {
  await using running = await serve();
  const { address } = running.server;
  const metrics = createMetrics({ processMetrics: false });
  await expect(startHealthServer({ address, readiness: () => [], metrics })).rejects.toThrow(
    `cannot serve health and metrics on 127.0.0.1:${address.port}`,
  );
});
