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
 * processes see the old or the new one.
 */
export async function swapIn(
  path: string,
  content: string | Uint8Array,
  options: SwapInOptions = {},
): Promise<void> {
  const file = await writeTemporary(path, content, options);
  try {
    await options.beforeRename?.(file.handle);
    await file.commit();
  } finally {
    await file.discard();
  }
}

/** A file that is written under a temporary name, beside the one that it is to replace. */
export interface TemporaryFile {
  /** Open until the caller closes it, or {@link discard} does. */
  readonly handle: FileHandle;
  /** Replaces the file at the path: processes see the old or the new content. */
  commit(): Promise<void>;
  /** Closes and removes it, whatever {@link commit} has come to. Never rejects. */
  discard(): Promise<void>;
}

/**
 * Writes what is to replace the file at `path`. For a machine that stops it is durable only after the
 * caller has synced the handle, and after the commit the directory. Nothing is left of it when this fails.
 */
export async function writeTemporary(
  path: string,
  content: string | Uint8Array,
  { mode = 0o600 }: AtomicWriteOptions = {},
): Promise<TemporaryFile> {
  const temporary = join(dirname(path), temporaryName(basename(path)));
  const handle = await open(temporary, "wx", mode);
  const discard = async (): Promise<void> => {
    await Promise.allSettled([unlink(temporary), handle.close()]);
  };
  try {
    await handle.writeFile(content);
    // The mode that open() got is cut by the umask.
    if (mode !== 0o600) await handle.chmod(mode);
    return { handle, discard, commit: () => rename(temporary, path) };
  } catch (error) {
    await discard();
    throw error;
  }
}

/** Makes creations, renames and removals in a directory durable. */
export async function syncDirectory(path: string): Promise<void> {
  await using handle = await open(path, "r");
  await handle.sync();
}
