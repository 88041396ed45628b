import { expect, test } from "vitest";
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

test("anything else is refused", async () => {
  await using running = await serve();
  expect((await fetch(`${running.url}/secrets`)).status).toBe(404);
  expect((await fetch(`${running.url}/metrics`, { method: "POST" })).status).toBe(405);
});

test("an address that is taken is named", async () => {
  await using running = await serve();
  const { address } = running.server;
  const metrics = createMetrics({ processMetrics: false });
  await expect(startHealthServer({ address, readiness: () => [], metrics })).rejects.toThrow(
    `cannot serve health and metrics on 127.0.0.1:${address.port}`,
  );
});
