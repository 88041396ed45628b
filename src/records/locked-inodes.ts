import { readFile } from "node:fs/promises";

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
