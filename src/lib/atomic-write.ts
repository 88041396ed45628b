import { randomBytes } from "node:crypto";
import { type FileHandle, open, rename, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** The suffix of files that a crash can leave behind; sweepers may remove them. */
export const temporarySuffix = ".tmp";

/** How a file is written. */
export interface AtomicWriteOptions {
  /** @default 0o600 */
  readonly mode?: number;
  /** Whether to make the rename durable as well; leave it to {@link syncDirectory} for several files. @default true */
  readonly syncDirectory?: boolean;
}

/**
 * Replaces a file by temporary file, fsync and rename in the same directory: readers see the old
 * or the new content, never a mixture, whenever the machine stops. A symlink at `path` is replaced,
 * not followed.
 */
export async function atomicWrite(
  path: string,
  content: string | Uint8Array,
  options: AtomicWriteOptions = {},
): Promise<void> {
  const name = `.${basename(path)}.${randomBytes(6).toString("hex")}${temporarySuffix}`;
  const temporary = join(dirname(path), name);
  const handle = await open(temporary, "wx", options.mode ?? 0o600);
  try {
    await fill(handle, { content, mode: options.mode ?? 0o600 });
    await rename(temporary, path);
  } catch (error) {
    await unlink(temporary).catch(() => undefined);
    throw error;
  }
  if (options.syncDirectory ?? true) await syncDirectory(dirname(path));
}

/** Makes creations, renames and removals in a directory durable. */
export async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function fill(
  handle: FileHandle,
  file: { content: string | Uint8Array; mode: number },
): Promise<void> {
  try {
    await handle.writeFile(file.content);
    await handle.chmod(file.mode);
    await handle.sync();
  } finally {
    await handle.close();
  }
}
