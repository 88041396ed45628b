import {
  closeSync,
  constants,
  lstatSync,
  openSync,
  renameSync,
  rmSync,
  type Stats,
  writeSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { CniError } from "#cni/error.ts";
import { errorMessage } from "#lib/error-message.ts";
import { isAbsent } from "#lib/files/is-absent.ts";
import { openToRead, readOpenFile } from "#lib/files/read-file.ts";
import { nameTarget, temporaryName } from "#lib/files/temporary-name.ts";
import { reasonRow } from "#lib/reasons.ts";

/*
 * The files are a few KB in the page cache: a system call takes microseconds, the thread pool many
 * times that. Only syncs are asynchronous.
 */

/** A file, and its status from before the content was read. */
type ReadFile = ReturnType<typeof readOpenFile>;

/** As far as the shim reads a file (PLAN_CAP of shim/replay.c). A sparse file has any length. */
export const readMax = 64 * 1024 * 1024;

/** Reads a record's file; undefined when it does not exist. @throws CniError 5 naming the file and the cause */
export function readIfPresent(path: string): ReadFile | undefined {
  // A thrown error costs more than this check.
  if (!isPresent(path)) return undefined;
  try {
    return readStateFile(path);
  } catch (error) {
    if (isAbsent(error)) return undefined;
    const problem = lstatSync(path, { throwIfNoEntry: false })?.isFile()
      ? `${errorMessage(error)}; ${reasonRow("IoFailure").step}`
      : "it is not a regular file; remove it";
    const message = `cannot read the attachment record ${path}: ${problem}`;
    throw new CniError("IoFailure", message, { cause: error });
  }
}

/**
 * Reads a regular file, without following a link: it could lead plexus-standalone, which runs on the
 * host, out of the state directory that plexusd can write to.
 * @throws Error as of node:fs
 */
export function readStateFile(path: string): ReadFile {
  const found = readByName(path);
  const isCut = found.bytes.length < Math.min(found.status.size, readMax);
  // Another process has renamed and emptied it: the DEL of its sandbox has succeeded.
  return isCut ? readByName(path) : found;
}

function readByName(path: string): ReadFile {
  const fd = openToRead(path, "above");
  try {
    return readOpenFile(fd, { path, max: readMax });
  } finally {
    closeSync(fd);
  }
}

/** Whether a text may be in a record that is not usable. Only a regular file is one. */
export function mayContain(path: string, text: string): boolean {
  try {
    return readStateFile(path).bytes.includes(text);
  } catch {
    return lstatSync(path, { throwIfNoEntry: false })?.isFile() === true;
  }
}

/** Whether a file of any kind exists. */
export function isPresent(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

/** The mode bit of a record whose DEL has begun; the shim sets it (shim/replay.c). No chmod -R does. */
const delBegun = 0o1000;

/** When the first DEL of a record's file began, in ISO 8601; undefined without one. */
export function delBegunAt({ mode, ctime }: Stats): string | undefined {
  return (mode & delBegun) === 0 ? undefined : ctime.toISOString();
}

/** Whether the file has that content, and the type and mode that the shim requires. */
export function isPrivateFile(path: string, content: Buffer): boolean {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found?.isFile() !== true || (found.mode & 0o7777) !== 0o600 || found.nlink !== 1)
    return false;
  return content.equals(readStateFile(path).bytes);
}

/** Writes all bytes at an offset. @throws Error as of node:fs, possibly after a part */
export function writeAt(fd: number, bytes: Uint8Array, position: number): void {
  for (let done = 0; done < bytes.length; ) {
    done += writeSync(fd, bytes, done, bytes.length - done, position + done);
  }
}

/** Atomically replaces a file (mode 0600). @returns its descriptor, which the caller must close */
export function putFile(path: string, content: Uint8Array): number {
  const temporary = join(dirname(path), temporaryName(basename(path)));
  let fd: number | undefined;
  try {
    fd = openSync(temporary, "wx+", 0o600);
    writeAt(fd, content, 0);
    renameSync(temporary, path);
    return fd;
  } catch (error) {
    if (fd !== undefined) closeSync(fd);
    rmSync(temporary, { force: true });
    throw nameTarget(error, temporary, path);
  }
}

/** Empties a file, or creates it (mode 0600). A symbolic link is an error (ELOOP). */
export function makeEmpty(path: string): void {
  const { O_WRONLY, O_CREAT, O_TRUNC, O_NOFOLLOW, O_NONBLOCK } = constants;
  closeSync(openSync(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK, 0o600));
}

/** Renames a file if it exists. @returns whether it did */
export function renameIfPresent(path: string, newPath: string): boolean {
  try {
    renameSync(path, newPath);
    return true;
  } catch (error) {
    if (!isAbsent(error)) throw error;
    return false;
  }
}
