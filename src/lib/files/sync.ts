import { closeSync, fsync, openSync } from "node:fs";
import { promisify } from "node:util";

/** Makes an open file durable. */
export function syncFile(fd: number): Promise<void> {
  return promisify(fsync)(fd);
}

/** Makes creations, renames and removals in a directory durable. */
export async function syncDirectory(path: string): Promise<void> {
  const fd = openSync(path, "r");
  try {
    await syncFile(fd);
  } finally {
    closeSync(fd);
  }
}
