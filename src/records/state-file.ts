import { constants, type Stats } from "node:fs";
import { type FileHandle, open, readFile, rename, stat, unlink } from "node:fs/promises";
import { CniError, CniErrorCode } from "#cni/error.ts";
import { writeTemporary } from "#lib/files/atomic-write.ts";
import { freeLater } from "#lib/files/free-later.ts";

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

/** A file's new content. */
export interface NewContent {
  readonly path: string;
  readonly content: string | Uint8Array;
}

/**
 * Replaces files, visible to every process at once, after the content of all of them is written: a disk
 * that is full leaves all as they were, and nothing else behind. The caller syncs and closes them.
 */
export async function replaceFiles(files: readonly NewContent[]): Promise<FileHandle[]> {
  const writing = files.map(({ path, content }) => writeTemporary(path, content));
  const settled = await Promise.allSettled(writing);
  const written = settled.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  try {
    const temporaries = await Promise.all(writing);
    await Promise.all(
      temporaries.map((file, i) => freeLater(files[i]?.path ?? "", () => file.commit())),
    );
    return temporaries.map(({ handle }) => handle);
  } catch (error) {
    await Promise.all(written.map((file) => file.discard()));
    throw error;
  }
}

/**
 * Makes a file empty, and creates it (mode 0600) where it does not exist. A symbolic link is an error
 * (ELOOP): plexusd writes to the state directory, and plexus-standalone, which runs on the host itself,
 * must not be led out of it.
 */
export async function makeEmpty(path: string): Promise<void> {
  const { O_WRONLY, O_CREAT, O_TRUNC, O_NOFOLLOW, O_NONBLOCK } = constants;
  const handle = await open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK, 0o600);
  await handle.close();
}

/** Removes a file, which need not exist. */
export async function removeIfPresent(path: string): Promise<void> {
  await unlink(path).catch(ignoreAbsent);
}

/** Renames a file, which need not exist. */
export async function renameIfPresent(path: string, newPath: string): Promise<void> {
  await rename(path, newPath).catch(ignoreAbsent);
}

/** What `stat` says of a file; undefined when it does not exist. */
export async function statIfPresent(path: string): Promise<Stats | undefined> {
  return stat(path).catch(ignoreAbsent);
}

/** For a step that may find its file absent. @throws any other error */
export function ignoreAbsent(error: unknown): undefined {
  if (!isAbsent(error)) throw error;
  return undefined;
}

function isAbsent(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === "ENOENT";
}
