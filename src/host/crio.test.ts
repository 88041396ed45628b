import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { isCrioRunning } from "./crio.ts";

test("CRI-O runs if its socket is there, in any directory", async () => {
  const before = await isCrioRunning();
  const dir = await mkdtemp(join(tmpdir(), "plexus-crio-"));
  const listening = async (name: string): Promise<boolean> => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(join(dir, name), resolve));
    const isRunning = await isCrioRunning();
    await new Promise((resolve) => server.close(resolve));
    return isRunning;
  };
  expect(await listening("crio.sock")).toBe(true);
  expect(await listening("crio.sock.old")).toBe(before);
  await rm(dir, { recursive: true });
});
