import fs from "node:fs";
import { mkdtempDisposable, stat, writeFile } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { isSandboxLocked } from "./sandbox-in-use.ts";

/** Stands for /proc/locks. */
function kernelLocks() {
  const read = vi.spyOn(fs.promises, "readFile");
  syncBuiltinESMExports();
  const restore = (): void => {
    read.mockRestore();
    syncBuiltinESMExports();
  };
  return Object.assign(read, { [Symbol.dispose]: restore });
}

test("no sandbox counts as locked if the kernel does not say or the directory is missing", async () => {
  await using dir = await mkdtempDisposable(join(tmpdir(), "plexus-in-use-"));
  await writeFile(join(dir.path, "c1.lock"), "");
  expect(await isSandboxLocked(join(dir.path, "none"), "c1")).toBe(false);
  using locks = kernelLocks();
  locks.mockRejectedValue(new Error("ENOENT"));
  expect(await isSandboxLocked(dir.path, "c1")).toBe(false);
});

test.each([
  ["OFDLCK", true],
  ["FLOCK", false],
])("a %s lock of the directory, by a shim without lock file: %s", async (kind, isLocked) => {
  await using dir = await mkdtempDisposable(join(tmpdir(), "plexus-in-use-"));
  const { ino } = await stat(dir.path);
  using locks = kernelLocks();
  locks.mockResolvedValue(`1: ${kind}  ADVISORY  READ -1 fd:00:${ino} 0 EOF\n`);
  expect(await isSandboxLocked(dir.path, "c1")).toBe(isLocked);
});
