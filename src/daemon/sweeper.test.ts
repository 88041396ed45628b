import { mkdtemp, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { startSweeper, sweepSockets } from "./sweeper.ts";

let dir: string;
const servers: Server[] = [];

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "plexus-sweeper-"));
});

afterEach(async () => {
  for (const server of servers.splice(0)) server.close();
  await rm(dir, { recursive: true });
});

async function bind(name: string, ageMs: number): Promise<void> {
  const server = createServer();
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(join(dir, name), resolve));
  const then = new Date(Date.now() - ageMs);
  await utimes(join(dir, name), then, then);
}

test("sweepSockets() removes the temporary sockets that a crash left, and nothing else", async () => {
  await bind("plexus.sock", 3_600_000);
  await bind("plexus.sock.0a1b2c", 3_600_000);
  await bind("plexus.sock.ffffff", 1000);
  await bind("other.sock.0a1b2c", 3_600_000);
  await writeFile(join(dir, "plexus.sock.aaaaaa"), "no socket");
  await utimes(join(dir, "plexus.sock.aaaaaa"), 0, 0);
  await sweepSockets(join(dir, "plexus.sock"));
  expect((await readdir(dir)).sort()).toEqual([
    "other.sock.0a1b2c",
    "plexus.sock",
    "plexus.sock.aaaaaa",
    "plexus.sock.ffffff",
  ]);
});

test("startSweeper() sweeps at once, and logs what fails", async () => {
  const logger = new FakeLogger();
  const records = { sweep: () => Promise.reject(new Error("read-only")) };
  using _sweeper = startSweeper({ records, logger, socketPath: join(dir, "plexus.sock") });
  await expect.poll(() => logger.at("warn")).toHaveLength(1);
});
