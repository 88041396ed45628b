import {
  closeSync,
  constants,
  lstatSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { CniError, CniErrorCode } from "#cni/error.ts";
import { isAbsent } from "#lib/files/is-absent.ts";
import { temporaryName } from "#lib/files/temporary-name.ts";

/*
 * The files are a few KB in the page cache: a system call takes microseconds, the thread pool many
 * times that. Only syncs are asynchronous.
 */

/** The content of a file; undefined when it does not exist. @throws CniError 5 naming the file */
export function readIfPresent(path: string, description: string): Buffer | undefined {
  try {
    // A thrown error costs more than this check.
    return isPresent(path) ? readFileSync(path) : undefined;
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw new CniError(CniErrorCode.IoFailure, `cannot read the ${description} ${path}`, {
      cause: error,
    });
  }
}

/** Whether a file of any kind exists. */
export function isPresent(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

/** The mode bit of a record whose DEL has begun; the shim sets it (shim/replay.c). */
const delBegun = 0o100;

/** When the record's first DEL began, in ISO 8601; undefined without DEL or record. */
export function delBegunAt(path: string): string | undefined {
  const status = lstatSync(path, { throwIfNoEntry: false });
  if (status === undefined || (status.mode & delBegun) === 0) return undefined;
  return status.ctime.toISOString();
}

/** Whether the file has that content, and the type and mode that the shim requires. */
export function isPrivateFile(path: string, content: Buffer): boolean {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found?.isFile() !== true || (found.mode & 0o7777) !== 0o600 || found.nlink !== 1)
    return false;
  return content.equals(readFileSync(path));
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
  const fd = openSync(temporary, "wx+", 0o600);
  try {
    writeAt(fd, content, 0);
    renameSync(temporary, path);
    return fd;
  } catch (error) {
    closeSync(fd);
    rmSync(temporary, { force: true });
    throw error;
  }
}

/**
 * Empties a file, or creates it (mode 0600). A symbolic link is an error (ELOOP): it could lead
 * plexus-standalone, which runs on the host, out of the state directory that plexusd can write to.
 */
export function makeEmpty(path: string): void {
  const { O_WRONLY, O_CREAT, O_TRUNC, O_NOFOLLOW, O_NONBLOCK } = constants;
  closeSync(openSync(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK, 0o600));
}

/** Renames a file if it exists. @returns whether it did */
export function renameIfPresent(path: string, newPath: string): boolean {
  if (!isPresent(path)) return false;
  try {
    renameSync(path, newPath);
    return true;
  } catch (error) {
    if (!isAbsent(error)) throw error;
    return false;
  }
}
