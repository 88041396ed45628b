import { constants } from "node:fs";
import { basename, dirname } from "node:path";
import { ProcessEndedError, systemError } from "../world/disk/errors.ts";
import type { InodeStats } from "../world/disk/inode.ts";
import { world } from "../world/world.ts";

/*
 * In place of node:fs: system calls of the process whose code runs, on the history's disk. Only
 * what the bundle uses is there.
 */

export { constants };

/** Until a process has an event of inotify, in microseconds. */
const watchUs = 100;
const { O_RDONLY, O_RDWR, O_WRONLY, O_CREAT, O_EXCL, O_TRUNC } = constants;

const flagsByName: Readonly<Record<string, number>> = {
  r: O_RDONLY,
  "r+": O_RDWR,
  w: O_WRONLY | O_CREAT | O_TRUNC,
  "w+": O_RDWR | O_CREAT | O_TRUNC,
  wx: O_WRONLY | O_CREAT | O_EXCL,
  "wx+": O_RDWR | O_CREAT | O_EXCL,
};

/** The flags of open(2) for a name of them. @throws Error for one that nothing uses */
export function flagsOf(flags: string | number): number {
  const number = typeof flags === "number" ? flags : flagsByName[flags];
  if (number === undefined) throw new Error(`the simulation opens no file with "${flags}"`);
  return number;
}

export function openSync(path: string, flags: string | number = "r", mode?: number): number {
  return world().disk.open(path, { flags: flagsOf(flags), ...(mode !== undefined && { mode }) });
}

export function closeSync(fd: number): void {
  world().disk.close(fd);
}

export function readFileSync(file: string | number): Buffer;
export function readFileSync(file: string | number, options: { readonly encoding: "utf8" }): string;
export function readFileSync(
  file: string | number,
  options?: { readonly encoding: "utf8" },
): Buffer | string {
  const { disk } = world();
  const bytes = typeof file === "number" ? disk.read(file) : disk.readFile(file);
  return options === undefined ? bytes : bytes.toString(options.encoding);
}

/** @returns how many bytes were read: all that there are */
// biome-ignore lint/complexity/useMaxParams: as in node:fs
export function readSync(
  fd: number,
  bytes: Uint8Array,
  offset: number,
  length: number,
  position: number,
): number {
  const part = world()
    .disk.read(fd)
    .subarray(position, position + length);
  bytes.set(part, offset);
  return part.length;
}

/** An entry of a directory. */
export class SimulatedDirent {
  readonly name: string;
  readonly parentPath: string;
  readonly #isDirectory: boolean;

  constructor(parentPath: string, [name, isDirectory]: [string, boolean]) {
    this.name = name;
    this.parentPath = parentPath;
    this.#isDirectory = isDirectory;
  }

  isFile(): boolean {
    return !this.#isDirectory;
  }

  isDirectory(): boolean {
    return this.#isDirectory;
  }

  isSymbolicLink(): boolean {
    return false;
  }
}

export function readdirSync(path: string): SimulatedDirent[] {
  return world()
    .disk.list(path)
    .map((entry) => new SimulatedDirent(path, entry));
}

/** @returns how many bytes were written: all */
// biome-ignore lint/complexity/useMaxParams: as in node:fs
export function writeSync(
  fd: number,
  bytes: Uint8Array,
  offset = 0,
  length = bytes.length - offset,
  position?: number | null,
): number {
  const isAll = offset === 0 && length === bytes.length;
  const data = isAll ? bytes : bytes.subarray(offset, offset + length);
  world().disk.write(fd, data, position ?? undefined);
  return length;
}

export function ftruncateSync(fd: number, size = 0): void {
  world().disk.truncate(fd, size);
}

export function fstatSync(fd: number): InodeStats {
  return world().disk.status(fd);
}

export function lstatSync(path: string, options: { throwIfNoEntry: false }): InodeStats | undefined;
export function lstatSync(path: string): InodeStats;
export function lstatSync(
  path: string,
  { throwIfNoEntry = true }: { throwIfNoEntry?: boolean } = {},
): InodeStats | undefined {
  const { disk } = world();
  return throwIfNoEntry ? disk.stat(path, "lstat") : disk.lstat(path);
}

export function statSync(path: string): InodeStats | undefined {
  const { disk } = world();
  return disk.exists(path) ? disk.stat(path) : undefined;
}

export function existsSync(path: string): boolean {
  return world().disk.exists(path);
}

export function renameSync(path: string, newPath: string): void {
  world().disk.rename(path, newPath);
}

/** Calls back after changes of a directory's entries, and of the files in it. */
export function watch(
  dir: string,
  _options: unknown,
  onEvent: (event: string, name: string) => void,
): { on(): unknown; close(): void } {
  const { disk, schedule } = world();
  const owner = schedule.current;
  const tell = (path: string): void => {
    if (dirname(path) !== dir) return;
    schedule.at(watchUs, () => onEvent("rename", basename(path)), owner);
  };
  disk.watchers.add(tell);
  const watcher = { on: () => watcher, close: () => void disk.watchers.delete(tell) };
  return watcher;
}

/** Removes a file. */
export function rmSync(path: string, { force = false }: { force?: boolean } = {}): void {
  const { disk } = world();
  if (force && !disk.exists(path)) return;
  if (disk.stat(path, "lstat").isDirectory()) throw systemError("EISDIR", { syscall: "rm", path });
  disk.unlink(path);
}

/** Calls back when the file is durable, or could not be made so; never if the process ends. */
export function fsync(fd: number, done: (error: Error | null) => void): void {
  synced(fd).then(() => done(null), done);
}

async function synced(fd: number): Promise<void> {
  try {
    await world().disk.sync(fd);
  } catch (error) {
    if (error instanceof ProcessEndedError) await new Promise(() => undefined);
    throw error;
  }
}
