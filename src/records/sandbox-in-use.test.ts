import { mkdtempDisposable, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { isSandboxInUse } from "./sandbox-in-use.ts";

test("a lock file is of a call for ten minutes, even if only a process that a plugin left keeps it", async () => {
  await using dir = await mkdtempDisposable(join(tmpdir(), "plexus-in-use-"));
  expect(await isSandboxInUse(dir.path, "c1")).toBe(false);
  const lock = join(dir.path, "c1.lock");
  await writeFile(lock, "");
  expect(await isSandboxInUse(dir.path, "c1")).toBe(true);
  for (const [minutes, isInUse] of [
    [9, true],
    [11, false],
  ] as const) {
    const then = Date.now() / 1000 - minutes * 60;
    await utimes(lock, then, then);
    expect(await isSandboxInUse(dir.path, "c1")).toBe(isInUse);
  }
});
