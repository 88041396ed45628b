import {
  closeSync,
  constants,
  lstatSync,
  openSync,
  readFileSync,
  renameSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { CniError, CniErrorCode } from "#cni/error.ts";
import { isAbsent } from "#lib/files/is-absent.ts";
import { temporaryName } from "#lib/files/temporary-name.ts";

/*
 * The state directory's files are a few KB in the page cache, for which a system call takes microseconds
 * and the way through the thread pool many times that. Only what waits for the disk is asynchronous.
 */

/** The content of a file; undefined when it does not exist. @throws CniError 5 naming the file */
export function readIfPresent(path: string, description: string): Buffer | undefined {
  try {
    // An error that is thrown costs more than a look before.
    return isPresent(path) ? readFileSync(path) : undefined;
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw new CniError(CniErrorCode.IoFailure, `cannot read the ${description} ${path}`, {
      cause: error,
    });
  }
}

/** Whether there is a file, whatever its kind. */
export function isPresent(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

/** Whether the file has that content and is as {@link putFile} makes it: the shim trusts no other one. */
export function isPrivateFile(path: string, content: Buffer): boolean {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found?.isFile() !== true || (found.mode & 0o7777) !== 0o600 || found.nlink !== 1)
    return false;
  return content.equals(readFileSync(path));
}

/** Writes all of the bytes at a place of an open file. @throws Error as of node:fs, with a part of it written */
export function writeAt(fd: number, bytes: Uint8Array, position: number): void {
  for (let done = 0; done < bytes.length; ) {
    done += writeSync(fd, bytes, done, bytes.length - done, position + done);
  }
}

/**
 * Puts a new file (mode 0600) in the place of what is there, with all of its content at once for every
 * other process. Nothing is left of it when this fails.
 * @returns its descriptor, which is the caller's
 */
export function putFile(path: string, content: Uint8Array): number {
  const temporary = join(dirname(path), temporaryName(basename(path)));
  const fd = openSync(temporary, "wx+", 0o600);
  try {
    writeAt(fd, content, 0);
    renameSync(temporary, path);
    return fd;
  } catch (error) {
    closeSync(fd);
    removeIfPresent(temporary);
    throw error;
  }
}

/**
 * Makes a file empty, and creates it (mode 0600) where it does not exist. A symbolic link is an error
 * (ELOOP): plexusd writes to the state directory, and plexus-standalone, which runs on the host itself,
 * must not be led out of it.
 */
export function makeEmpty(path: string): void {
  const { O_WRONLY, O_CREAT, O_TRUNC, O_NOFOLLOW, O_NONBLOCK } = constants;
  closeSync(openSync(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK, 0o600));
}

/** Removes a file, which need not exist. */
export function removeIfPresent(path: string): void {
  if (isPresent(path)) ignoringAbsent(() => unlinkSync(path));
}

/** Renames a file, which need not exist. @returns whether it did */
export function renameIfPresent(path: string, newPath: string): boolean {
  if (!isPresent(path)) return false;
  return ignoringAbsent(() => renameSync(path, newPath));
}

function ignoringAbsent(step: () => void): boolean {
  try {
    step();
    return true;
  } catch (error) {
    if (!isAbsent(error)) throw error;
    return false;
  }
}
