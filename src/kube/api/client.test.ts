import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { expect, onTestFinished, test } from "vitest";
import { ApiClient } from "./client.ts";
import { RereadCredentials } from "./credentials.ts";

const pods = "/api/v1/pods";

/** A client of an HTTP server that answers as the test says. */
async function clientOf(
  answer: (request: IncomingMessage, response: ServerResponse) => unknown,
): Promise<ApiClient> {
  const server = createServer(answer);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const credentials = new RereadCredentials({
    source: "the test",
    server: new URL(`http://127.0.0.1:${port}`),
    read: async () => ({
      server: new URL(`http://127.0.0.1:${port}`),
      tls: { rejectUnauthorized: true },
    }),
  });
  const client = new ApiClient(credentials);
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return client;
}

const gzip = { "content-encoding": "gzip" };

test("json() requests compression, decompresses, and reuses the connection", async () => {
  const sockets = new Set<Socket>();
  const client = await clientOf((request, response) => {
    sockets.add(request.socket);
    if (request.headers["accept-encoding"] !== "gzip") return response.writeHead(400).end();
    return response.writeHead(200, gzip).end(gzipSync(JSON.stringify({ items: ["a"] })));
  });
  for (const _ of [1, 2]) {
    expect(await client.json({ path: pods, timeoutMs: 5000 })).toEqual({ items: ["a"] });
  }
  expect(sockets.size).toBe(1);
});

test.each([
  ["", {}, () => Buffer.alloc(17_000_000, " ")],
  [" after decompression", gzip, () => gzipSync(Buffer.alloc(40_000_000, " "))],
])("json() rejects a response of more than 16 MiB%s, with the request's name", async (...row) => {
  const [, headers, body] = row;
  const client = await clientOf((_request, response) => {
    response.writeHead(200, headers).end(body());
  });
  await expect(client.json({ path: pods, timeoutMs: 30_000 })).rejects.toMatchObject({
    message: "GET /api/v1/pods: the response is longer than the limit of 16777216 bytes",
    reason: "ResponseTooLong",
    transient: true,
  });
});

test.each([
  ["is cut off", (body: Buffer) => body.subarray(0, -10)],
  ["is not compressed", () => Buffer.from("{}")],
])("json() fails when a compressed response %s", async (_name, change) => {
  const body = change(gzipSync(JSON.stringify({ items: ["a".repeat(1000)] })));
  const client = await clientOf((_request, response) => response.writeHead(200, gzip).end(body));
  const answer = client.json({ path: pods, timeoutMs: 5000 });
  await expect(answer).rejects.toMatchObject({ name: "ApiError", status: 0 });
});

test("the error of a compressed response has its message", async () => {
  const body = gzipSync(JSON.stringify({ message: "not you" }));
  const client = await clientOf((_request, response) => response.writeHead(403, gzip).end(body));
  await expect(client.json({ path: pods, timeoutMs: 5000 })).rejects.toThrow("HTTP 403: not you");
});

test("lines() does not request compression, for which the server would buffer lines", async () => {
  const client = await clientOf((request, response) => {
    response.end(`${JSON.stringify(request.headers["accept-encoding"] ?? "none")}\n`);
  });
  const lines = client.lines({ path: pods, timeoutMs: 5000 }, { idleMs: 5000 });
  expect(await Array.fromAsync(lines)).toEqual(['"none"']);
});

test.each([
  ["a request that times out", (client: ApiClient) => client.json({ path: pods, timeoutMs: 200 })],
  [
    "a watch that is silent",
    (client: ApiClient) =>
      Array.fromAsync(client.lines({ path: "/watch", timeoutMs: 5000 }, { idleMs: 200 })),
  ],
])("%s closes the idle connections: no later request waits on them", async (_, lose) => {
  const known = new Set<Socket>();
  let held: ServerResponse[] = [];
  let isCutOff = false;
  const client = await clientOf(({ socket, url }, response) => {
    if (url === "/watch") return response.flushHeaders();
    if (isCutOff && known.has(socket)) return;
    if (isCutOff) return response.end("{}");
    known.add(socket);
    held.push(response);
    if (held.length < 4) return;
    for (const each of held) each.end("{}");
    held = [];
  });
  const ask = () => client.json({ path: pods, timeoutMs: 5000 });
  await Promise.all([ask(), ask(), ask(), ask()]);
  const losing = lose(client);
  isCutOff = true;
  await expect(losing).rejects.toThrow(/no answer within 200 ms|nothing received for 200 ms/);
  expect(await ask()).toEqual({});
});

test("the time limit of a request holds while it waits for a connection", async () => {
  const client = await clientOf(() => undefined);
  const request = { path: pods, timeoutMs: 60_000, signal: AbortSignal.timeout(1500) };
  const hanging = Array.from({ length: 40 }, () => client.json(request));
  const late = client.json({ path: "/late", timeoutMs: 100 });
  const outcome = await Promise.race([Promise.allSettled([late]), Promise.allSettled(hanging)]);
  expect(outcome).toMatchObject([{ reason: { message: expect.stringContaining("/late") } }]);
  await Promise.allSettled(hanging);
});
