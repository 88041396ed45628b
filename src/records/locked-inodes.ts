import { readFile } from "node:fs/promises";

/**
 * The inodes of all locked files on any file system; undefined when the kernel does not provide
 * them. A container sees only its own processes' locks, but all open-file-description locks, which
 * every operation on a sandbox holds (shim/lock.c).
 */
export async function lockedInodes(): Promise<ReadonlySet<number> | undefined> {
  const text = await readFile("/proc/locks", "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  const inodes = text.matchAll(/ [0-9a-f]+:[0-9a-f]+:(\d+) /g);
  return new Set(Array.from(inodes, ([, inode]) => Number(inode)));
}
