import { open } from "node:fs/promises";

/**
 * Runs a step that replaces or removes a file, and has the blocks of the old content freed behind
 * the caller's back: a disk that discards what is freed takes milliseconds for it, and it is the
 * last one to let go of the file who waits.
 */
export async function freeLater<T>(path: string, step: () => Promise<T>): Promise<T> {
  const old = await open(path, "r").catch(() => undefined);
  try {
    return await step();
  } finally {
    old?.close().catch(() => undefined);
  }
}
