import { type FileHandle, open, rename, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { syncDirectory } from "./sync.ts";
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
  await swapIn(path, content, { ...options, beforeRename: (file) => file.sync() });
  await syncDirectory(dirname(path));
}

/** How a file is put in place. */
interface SwapInOptions extends AtomicWriteOptions {
  /** What has to be done with the written file before it has its name. */
  readonly beforeRename?: (handle: FileHandle) => Promise<void>;
}

/**
 * Replaces a file by temporary file and rename, for content that a machine that stops may take away:
 * processes see the old or the new one. Nothing is left of the new one when this fails.
 */
export async function swapIn(
  path: string,
  content: string | Uint8Array,
  { mode = 0o600, beforeRename }: SwapInOptions = {},
): Promise<void> {
  const temporary = join(dirname(path), temporaryName(basename(path)));
  await using handle = await open(temporary, "wx", mode);
  try {
    await handle.writeFile(content);
    // The mode that open() got is cut by the umask.
    if (mode !== 0o600) await handle.chmod(mode);
    await beforeRename?.(handle);
    await rename(temporary, path);
  } catch (error) {
    await unlink(temporary).catch(() => undefined);
    throw error;
  }
}
