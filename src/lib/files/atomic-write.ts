import type { ReadStream } from "node:fs";
import { type FileHandle, open, rename, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { syncDirectory } from "./sync.ts";
import { nameTarget, temporaryName } from "./temporary-name.ts";

/**
 * Atomically replaces a file: temporary file, fsync and rename. Even after a crash of the machine,
 * readers see either the old or the new content. A symlink at `path` is replaced, not followed.
 */
export async function atomicWrite(
  path: string,
  content: Content,
  options: Omit<SwapOptions, "beforeRename"> = {},
): Promise<void> {
  await swapIn(path, content, { ...options, beforeRename: (file) => file.sync() });
  await syncDirectory(dirname(path));
}

type Content = string | Uint8Array | ReadStream;

interface SwapOptions {
  /** @default 0o600 */
  readonly mode?: number;
  /** Gives the temporary file its name. @default rename, which replaces a file of that name */
  readonly place?: (temporary: string, path: string) => Promise<void>;
  readonly beforeRename?: (handle: FileHandle) => Promise<void>;
}

/** Atomically replaces a file without fsync: a crash of the machine may lose the content. */
export async function swapIn(
  path: string,
  content: Content,
  options: SwapOptions = {},
): Promise<void> {
  const temporary = join(dirname(path), temporaryName(basename(path)));
  try {
    // Closed before it gets its name: the kernel executes no file that is open for writing.
    await writeNew(temporary, content, options);
    await (options.place ?? rename)(temporary, path);
  } catch (error) {
    await unlink(temporary).catch(() => undefined);
    throw nameTarget(error, temporary, path);
  }
}

async function writeNew(
  path: string,
  content: Content,
  { mode = 0o600, beforeRename }: SwapOptions,
): Promise<void> {
  await using handle = await open(path, "wx", mode);
  await handle.writeFile(content);
  // open() applies the umask to the mode.
  if (mode !== 0o600) await handle.chmod(mode);
  await beforeRename?.(handle);
}
