import { createServer } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { isCrioRunning } from "./crio.ts";

test("CRI-O runs if its socket is there, in any directory", async () => {
  const before = await isCrioRunning();
  const dir = await temporaryDirectory();
  const listening = async (name: string): Promise<boolean> => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(join(dir, name), resolve));
    const isRunning = await isCrioRunning();
    await new Promise((resolve) => server.close(resolve));
    return isRunning;
  };
  expect(await listening("crio.sock")).toBe(true);
  expect(await listening("crio.sock.old")).toBe(before);
});
