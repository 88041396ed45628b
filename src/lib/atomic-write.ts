import { type FileHandle, open, rename, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { temporaryName } from "./temporary-name.ts";

/** How a file is written. */
interface AtomicWriteOptions {
  /** @default 0o600 */
  readonly mode?: number;
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
  await using _file = await swapIn(path, content, { ...options, beforeRename: (h) => h.sync() });
  await syncDirectory(dirname(path));
}

/** How a file is put in place. */
interface SwapInOptions extends AtomicWriteOptions {
  /** What has to be done with the written file before it has its name. */
  readonly beforeRename?: (handle: FileHandle) => Promise<void>;
}

/**
 * Replaces a file by temporary file and rename. Processes see the old or the new content; for a
 * machine that stops it is durable only after the caller has synced what this returns, and the
 * directory. The caller closes it.
 */
export async function swapIn(
  path: string,
  content: string | Uint8Array,
  options: SwapInOptions = {},
): Promise<FileHandle> {
  const temporary = join(dirname(path), temporaryName(basename(path)));
  const mode = options.mode ?? 0o600;
  const handle = await open(temporary, "wx", mode);
  try {
    await handle.writeFile(content);
    // The mode that open() got is cut by the umask.
    if (mode !== 0o600) await handle.chmod(mode);
    await options.beforeRename?.(handle);
    await rename(temporary, path);
    return handle;
  } catch (error) {
    await handle.close();
    await unlink(temporary).catch(() => undefined);
    throw error;
  }
}

/** Makes creations, renames and removals in a directory durable. */
export async function syncDirectory(path: string): Promise<void> {
  await using handle = await open(path, "r");
  await handle.sync();
}
