import { type FileHandle, readFile, rename, stat, unlink } from "node:fs/promises";
import { CniError, CniErrorCode } from "#cni/error.ts";
import { swapIn } from "#lib/atomic-write.ts";
import { freeLater } from "#lib/free-later.ts";

/** The age from which a temporary file no longer belongs to a process that is writing it. */
const abandonedAfterMs = 600_000;

/** The content of a file; undefined when it does not exist. @throws CniError 5 naming the file */
export async function readIfPresent(
  path: string,
  description: string,
): Promise<Buffer | undefined> {
  try {
    return await readFile(path);
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw new CniError(CniErrorCode.IoFailure, `cannot read the ${description} ${path}`, {
      cause: error,
    });
  }
}

/** Replaces a file, visible to every process at once. The caller syncs and closes it. */
export function replaceFile(path: string, content: string | Uint8Array): Promise<FileHandle> {
  return freeLater(path, () => swapIn(path, content));
}

/** Removes a file, which need not exist. */
export async function removeIfPresent(path: string): Promise<void> {
  await unlink(path).catch(ignoreAbsent);
}

/** Renames a file, which need not exist. */
export async function renameIfPresent(path: string, newPath: string): Promise<void> {
  await rename(path, newPath).catch(ignoreAbsent);
}

/** Removes a temporary file, unless another process (one per call without a daemon) may be writing it. */
export async function removeIfAbandoned(path: string): Promise<void> {
  const status = await stat(path).catch(ignoreAbsent);
  if (status !== undefined && Date.now() - status.mtimeMs > abandonedAfterMs) {
    await removeIfPresent(path);
  }
}

function ignoreAbsent(error: unknown): undefined {
  if (!isAbsent(error)) throw error;
  return undefined;
}

function isAbsent(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === "ENOENT";
}
