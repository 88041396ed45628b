import { rm, stat } from "node:fs/promises";
import { request } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { startAdminServer } from "./admin-server.ts";
import { parseFailedAdd } from "./failed-add.ts";

async function serve(reasons: readonly string[] = []) {
  const dir = await temporaryDirectory();
  const socketPath = join(dir, "admin.sock");
  const logger = new FakeLogger();
  const noted: unknown[] = [];
  const answers = {
    node: () => Promise.reject(new Error("no node")),
    networks: async () => [],
    lostDefinitions: async () => [],
    pod: () => Promise.reject(new Error("no disk")),
    readiness: () => reasons,
    refresh: async () => ({ state: "settled" as const, operations: [] }),
    noteFailedAdd: (pod: object, body: string) => void noted.push([pod, parseFailedAdd(body)]),
  };
  const server = await startAdminServer({ socketPath, answers, logger });
  onTestFinished(() => server.close());
  return { socketPath, logger, server, noted };
}

async function ask(socketPath: string, path: string, { method = "GET", body = "" } = {}) {
  const outgoing = request({ socketPath, path, method, agent: false }).end(body);
  const response = await new Promise<import("node:http").IncomingMessage>((resolve, reject) => {
    outgoing.once("response", resolve).once("error", reject);
  });
  return { status: response.statusCode, body: await text(response) };
}

test("the admin socket has mode 0600 [S-507]", async () => {
  expect((await stat((await serve()).socketPath)).mode & 0o777).toBe(0o600);
});

test.each([
  ["/", "GET", 404],
  ["/pods/a", "GET", 404],
  ["/pods/a/b/c", "GET", 404],
  ["/pods//b", "GET", 404],
  ["/networks", "GET", 200],
  ["/lost-definitions", "GET", 200],
  ["/lost-definitions", "DELETE", 200],
  ["/lost-definitions", "POST", 404],
  ["/node", "POST", 404],
  ["/node", "DELETE", 404],
  ["/pods/a/b/refresh/net1", "POST", 200],
  ["/pods/a/b/refresh/net1", "GET", 404],
  ["/pods/a/b/refresh/", "POST", 404],
  ["/pods/a/b/refresh/net1/c", "POST", 404],
  ["/healthz", "GET", 200],
  ["/readyz", "GET", 200],
  ["/pods/%/b", "GET", 400],
  ["/pods/a/b", "GET", 500],
  ["/pods/a/b/other-page", "GET", 404],
])("%s with method %s is answered with %i", async (path, method, status) => {
  expect((await ask((await serve()).socketPath, path, { method })).status).toBe(status);
});

test("/readyz has each reason, as the health server's", async () => {
  const { socketPath } = await serve(["a is not", "b is not"]);
  const body = "not ready: a is not\nnot ready: b is not\n";
  expect(await ask(socketPath, "/readyz")).toEqual({ status: 503, body });
});

test("plexus-standalone, of any release, reports a failed ADD", async () => {
  const { socketPath, noted } = await serve();
  const report = (sent: unknown) =>
    ask(socketPath, "/pods/a/b/failed-add", { method: "POST", body: JSON.stringify(sent) });
  const failure = { message: "none", code: 100, subject: "a/n", reason: "NoNetworkFound" };
  expect(await report({ command: "ADD", ...failure })).toEqual({ status: 200, body: "" });
  await report({ message: "m", reason: "OfAnotherRelease", code: "7" });
  const pod = { namespace: "a", name: "b" };
  expect(noted).toEqual([
    [pod, failure],
    [pod, { message: "m" }],
  ]);
  for (const sent of [{}, "x".repeat(65 * 1024), null])
    expect(await report(sent)).toMatchObject({ status: 500 });
});

test("an error is returned to the client and logged", async () => {
  const { socketPath, logger } = await serve();
  expect((await ask(socketPath, "/pods/a/b")).body).toBe("no disk");
  expect(logger.at("warn")).toEqual(["an admin request failed"]);
});

test("an admin socket that was removed is recreated", async () => {
  const { socketPath, server } = await serve();
  await rm(socketPath);
  await server.ensureReachable();
  expect((await ask(socketPath, "/node")).body).toBe("no node");
});
