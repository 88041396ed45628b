import { mkdtemp, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { sweepSockets } from "./sweep-sockets.ts";

test("sweepSockets() removes what a killed daemon has left, and nothing younger or foreign", async () => {
  const dir = await mkdtemp(join(tmpdir(), "plexus-sockets-"));
  onTestFinished(() => rm(dir, { recursive: true }));
  const longAgo = Date.now() / 1000 - 700;
  for (const [name, isOld] of [
    ["plexus.sock", true],
    ["plexus.sock.0a1b2c", true],
    ["plexus.sock.0a1b2d", false],
    ["other.sock.0a1b2c", true],
  ] as const) {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(join(dir, name), resolve));
    onTestFinished(() => void server.close());
    if (isOld) await utimes(join(dir, name), longAgo, longAgo);
  }
  await writeFile(join(dir, "plexus.sock.ffffff"), "no socket");
  await utimes(join(dir, "plexus.sock.ffffff"), longAgo, longAgo);
  await sweepSockets(join(dir, "plexus.sock"));
  expect((await readdir(dir)).sort()).toEqual([
    "other.sock.0a1b2c",
    "plexus.sock",
    "plexus.sock.0a1b2d",
    "plexus.sock.ffffff",
  ]);
});
