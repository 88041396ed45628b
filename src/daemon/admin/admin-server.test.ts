import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { startReportServer } from "./admin-server.ts";

async function serve(explain: () => Promise<never> = () => Promise.reject(new Error("no disk"))) {
  const dir = await mkdtemp(join(tmpdir(), "plexus-report-"));
  onTestFinished(() => rm(dir, { recursive: true }));
  const socketPath = join(dir, "admin.sock");
  const logger = new FakeLogger();
  const nodeReport = (): Promise<never> => Promise.reject(new Error("no node"));
  const claimedDevices = async () => ({ "vendor.example/vf": [] });
  const server = await startReportServer({
    ...{ socketPath, explain, claimedDevices, nodeReport, logger },
  });
  onTestFinished(() => server.close());
  return { dir, socketPath, logger, close: () => server.close() };
}

async function ask(socketPath: string, path: string, method = "GET") {
  const outgoing = request({ socketPath, path, method, agent: false }).end();
  const response = await new Promise<import("node:http").IncomingMessage>((resolve, reject) => {
    outgoing.once("response", resolve).once("error", reject);
  });
  return { status: response.statusCode, body: await text(response) };
}

test("the socket is root's alone, and nothing else is left beside it [S-507]", async () => {
  const { dir, socketPath } = await serve();

  expect((await stat(socketPath)).mode & 0o777).toBe(0o600);
  expect(await readdir(dir)).toEqual(["admin.sock"]);
});

test.each([
  ["/", "GET", 404],
  ["/pods/a", "GET", 404],
  ["/pods/a/b/c", "GET", 404],
  ["/pods//b", "GET", 404],
  ["/node", "POST", 405],
  ["/%", "GET", 500],
  ["/pods/a/b", "GET", 500],
  ["/pods/a/b/claimed-devices", "GET", 200],
  ["/pods/a/b/claimed-devices/c", "GET", 404],
])("%s by %s is answered with %i", async (path, method, status) => {
  const { socketPath } = await serve();

  expect((await ask(socketPath, path, method)).status).toBe(status);
});

test("what goes wrong is said to who asks, and logged", async () => {
  const { socketPath, logger } = await serve();

  expect((await ask(socketPath, "/pods/a/b")).body).toBe("no disk");
  expect(JSON.stringify(logger.lines)).toContain("a report could not be made");
});

test("a successor's socket stays when the predecessor ends", async () => {
  const first = await serve();
  const nodeReport = (): Promise<never> => Promise.reject(new Error("second"));
  const explain = { explain: nodeReport, claimedDevices: nodeReport };
  const options = { socketPath: first.socketPath, ...explain, nodeReport };
  const second = await startReportServer({ ...options, logger: new FakeLogger() });
  await first.close();

  expect((await ask(first.socketPath, "/node")).body).toBe("second");
  await second.close();
});
