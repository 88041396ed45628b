import { constants } from "node:fs";
import { dirname } from "node:path";
import { ProcessEndedError, systemError } from "../world/disk/errors.ts";
import type { InodeStats } from "../world/disk/inode.ts";
import { world } from "../world/world.ts";
import { flagsOf, fsync, rmSync, SimulatedDirent } from "./fs.ts";

/*
 * In place of node:fs/promises: the same after the time that Node's thread pool takes. When the
 * process ends before, nothing happens and nothing resolves. Only what the bundle uses is there.
 */

export { constants };

type Disk = ReturnType<typeof world>["disk"];

/** Between a call and its end, in microseconds. */
const [minUs, maxUs] = [20, 200];

function later<T>(run: (disk: Disk) => T): Promise<T> {
  const { schedule, random, disk } = world();
  return new Promise((resolve, reject) => {
    schedule.at(random.duration(minUs, maxUs), () => {
      try {
        resolve(run(disk));
      } catch (error) {
        if (!(error instanceof ProcessEndedError)) reject(error);
      }
    });
  });
}

type Encoding = "utf8" | { readonly encoding?: "utf8" };

/** An open file. */
class SimulatedFileHandle {
  #fd: number;

  constructor(fd: number) {
    this.#fd = fd;
  }

  /** -1 when it is closed. */
  get fd(): number {
    return this.#fd;
  }

  stat(): Promise<InodeStats> {
    return this.#later("fstat", (disk) => disk.status(this.#fd));
  }

  readFile(): Promise<Buffer>;
  readFile(encoding: Encoding): Promise<string>;
  readFile(encoding?: Encoding): Promise<Buffer | string> {
    return this.#later("read", (disk) => decoded(disk.read(this.#fd), encoding));
  }

  writeFile(content: string | Uint8Array): Promise<void> {
    const bytes = typeof content === "string" ? Buffer.from(content) : content;
    return this.#later("write", (disk) => disk.write(this.#fd, bytes));
  }

  chmod(mode: number): Promise<void> {
    return this.#later("fchmod", (disk) => disk.setMode(this.#fd, mode));
  }

  sync(): Promise<void> {
    if (this.#fd < 0) return Promise.reject(closedError("fsync"));
    return new Promise((resolve, reject) => {
      fsync(this.#fd, (error) => (error === null ? resolve() : reject(error)));
    });
  }

  async close(): Promise<void> {
    if (this.#fd < 0) return;
    const fd = this.#fd;
    this.#fd = -1;
    await later((disk) => disk.close(fd));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #later<T>(syscall: string, run: (disk: Disk) => T): Promise<T> {
    return this.#fd < 0 ? Promise.reject(closedError(syscall)) : later(run);
  }
}

export function open(
  path: string,
  flags: string | number = "r",
  mode?: number,
): Promise<SimulatedFileHandle> {
  const options = { flags: flagsOf(flags), ...(mode !== undefined && { mode }) };
  return later((disk) => new SimulatedFileHandle(disk.open(path, options)));
}

export function readFile(path: string): Promise<Buffer>;
export function readFile(path: string, encoding: Encoding): Promise<string>;
export function readFile(path: string, encoding?: Encoding): Promise<Buffer | string> {
  return later((disk) => decoded(disk.readFile(path), encoding));
}

export function writeFile(
  path: string,
  content: string | Uint8Array,
  { mode }: { mode?: number } = {},
): Promise<void> {
  return later((disk) => disk.writeFile(path, content, mode));
}

export function stat(path: string): Promise<InodeStats> {
  return later((disk) => disk.stat(path));
}

export function lstat(path: string): Promise<InodeStats> {
  return later((disk) => disk.stat(path, "lstat"));
}

export function readdir(path: string): Promise<string[]>;
export function readdir(path: string, options: { withFileTypes: true }): Promise<SimulatedDirent[]>;
export function readdir(
  path: string,
  { withFileTypes = false }: { withFileTypes?: boolean } = {},
): Promise<(string | SimulatedDirent)[]> {
  return later((disk) =>
    disk.list(path).map((entry) => (withFileTypes ? new SimulatedDirent(path, entry) : entry[0])),
  );
}

/** Returns the first directory that was made when it may make several. */
export function mkdir(
  path: string,
  { recursive = false, mode }: { recursive?: boolean; mode?: number } = {},
): Promise<string | undefined> {
  return later((disk) => {
    if (recursive) return makeDirectories(disk, path, mode);
    disk.mkdir(path, mode);
    return undefined;
  });
}

function makeDirectories(disk: Disk, path: string, mode?: number): string | undefined {
  if (disk.exists(path) && disk.stat(path).isDirectory()) return undefined;
  const parent = dirname(path);
  const first = parent === path ? undefined : makeDirectories(disk, parent, mode);
  disk.mkdir(path, mode);
  return first ?? path;
}

export function rename(path: string, newPath: string): Promise<void> {
  return later((disk) => disk.rename(path, newPath));
}

export function unlink(path: string): Promise<void> {
  return later((disk) => disk.unlink(path));
}

/** Removes a file. */
export function rm(path: string, options: { force?: boolean } = {}): Promise<void> {
  return later(() => rmSync(path, options));
}

export function chmod(path: string, mode: number): Promise<void> {
  return later((disk) => disk.chmod(path, mode));
}

/** There are no symbolic links. */
export function readlink(path: string): Promise<string> {
  return later(() => {
    throw systemError("EINVAL", { syscall: "readlink", path });
  });
}

function decoded(bytes: Buffer, encoding: Encoding | undefined): Buffer | string {
  const name = typeof encoding === "object" ? encoding.encoding : encoding;
  return name === undefined ? bytes : bytes.toString(name);
}

function closedError(syscall: string): Error {
  return Object.assign(new Error("file closed"), { code: "EBADF", syscall });
}
