import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from "node:fs";
import { basename, dirname } from "node:path";
import { isAbsent } from "./is-absent.ts";
import { nameTarget } from "./temporary-name.ts";

/** More than any text has that Plexus reads: a sparse file has any length. */
const textMax = 16 * 1024 * 1024;

/**
 * Which links may lead to a file: `any` if only root can make them; links `above` the file, but not
 * the file itself; or `none` in its place and in that of its directory.
 */
export type Links = "any" | "above" | "none";

/** A file that is not read, for what it is. The message quotes nothing of it. */
export class RefusedFileError extends Error {
  override readonly name = "RefusedFileError";
}

/**
 * Reads a regular file of at most 16 MiB. Never waits, as for the writer of a named pipe. A system
 * call on such a file takes microseconds, the thread pool many times that.
 * @throws RefusedFileError; Error as of node:fs
 */
export function readTextFile(path: string, links: Links): string {
  const fd = openToRead(path, links);
  try {
    const { status, bytes } = readOpenFile(fd, { path, max: textMax });
    if (status.size <= textMax) return bytes.toString();
    throw new RefusedFileError(`${path} has more than ${textMax} bytes`);
  } finally {
    closeSync(fd);
  }
}

/** The same; undefined if there is no file. */
export function textIfPresent(path: string, links: Links): string | undefined {
  try {
    return readTextFile(path, links);
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}

/** The same; undefined whatever the reason. */
export function textIfUsable(path: string, links: Links): string | undefined {
  try {
    return readTextFile(path, links);
  } catch {
    return undefined;
  }
}

/** Opens a file for {@link readOpenFile}. @throws RefusedFileError; Error as of node:fs */
export function openToRead(path: string, links: Links): number {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  const flags = O_RDONLY | O_NONBLOCK | (links === "any" ? 0 : O_NOFOLLOW);
  let dir: number | undefined;
  let opened = path;
  try {
    if (links === "none") {
      dir = openSync(dirname(path), flags);
      opened = `/proc/self/fd/${dir}/${basename(path)}`;
    }
    return openSync(opened, flags);
  } catch (error) {
    const isLink = (error as NodeJS.ErrnoException).code === "ELOOP";
    throw isLink
      ? new RefusedFileError(`${path} is a link, or its directory is one`)
      : nameTarget(error, opened, path);
  } finally {
    if (dir !== undefined) closeSync(dir);
  }
}

/** Reads an open regular file from its start, up to a length. @throws as {@link readTextFile} */
export function readOpenFile(
  fd: number,
  { path, max }: { readonly path: string; readonly max: number },
): { status: Stats; bytes: Buffer } {
  const status = fstatSync(fd);
  if (!status.isFile()) throw new RefusedFileError(`${path} is not a regular file`);
  const bytes = Buffer.alloc(Math.min(status.size, max));
  let length = 0;
  for (let n = -1; n !== 0 && length < bytes.length; length += n)
    n = readSync(fd, bytes, length, bytes.length - length, length);
  return { status, bytes: bytes.subarray(0, length) };
}
