import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { sandboxLockName } from "#lib/files/state-files.ts";

/**
 * Whether a shim operates on the sandbox now, or on any if it had no room for its lock file and has
 * marked the directory; false when the kernel does not say. The file's age does not matter: the
 * clock may have been set forward during the call.
 */
export async function isSandboxLocked(stateDir: string, containerId: string): Promise<boolean> {
  const lock = await stat(join(stateDir, sandboxLockName(containerId))).catch(() => undefined);
  if (lock !== undefined && (await lockedInodes())?.has(lock.ino) === true) return true;
  const directory = await stat(stateDir).catch(() => undefined);
  if (directory === undefined) return false;
  return (await lockedInodes("OFDLCK"))?.has(directory.ino) ?? false;
}

/**
 * The inodes of all locked files on any file system; undefined when the kernel does not provide
 * them. A container sees only its own processes' locks, but all open-file-description locks, which
 * every operation on a sandbox holds (shim/lock.c).
 * @param kind `OFDLCK`: only those
 */
export async function lockedInodes(kind = ""): Promise<ReadonlySet<number> | undefined> {
  const text = await readFile("/proc/locks", "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  const locks = text.split("\n").filter((line) => line.includes(kind));
  const inodes = locks.flatMap((line) => / [0-9a-f]+:[0-9a-f]+:(\d+) /.exec(line)?.[1] ?? []);
  return new Set(inodes.map(Number));
}
