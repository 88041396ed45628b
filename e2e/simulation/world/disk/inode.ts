import { clockMs } from "../ground.ts";

/** Where an inode is, which decides what a restart of the machine leaves of it. */
export type Medium =
  /** On the disk: what was not synced may be lost. */
  | "disk"
  /** In memory: nothing is left. */
  | "tmpfs"
  /** Files of the machine that Plexus does not write: all is left. */
  | "fixed";

/** What distinguishes a new inode. */
interface InodeOptions {
  readonly number: number;
  readonly mode: number;
  readonly medium: Medium;
  readonly isDirectory: boolean;
}

const nothing = Buffer.alloc(0);

/** A file, or a directory where it has entries. */
export class Inode {
  readonly number: number;
  readonly medium: Medium;
  readonly entries: Map<string, Inode> | undefined;
  /** Permissions, without the type. */
  mode: number;
  /** How many names it has. */
  links = 0;
  modifiedMs = 0;
  changedMs = 0;
  size = 0;
  /** What was appended; reading joins it. The bytes are never changed in place. */
  #parts: Uint8Array[] = [];

  constructor({ number, mode, medium, isDirectory }: InodeOptions) {
    this.number = number;
    this.medium = medium;
    this.mode = mode;
    this.entries = isDirectory ? new Map() : undefined;
  }

  /** Callers must not change it. */
  content(): Buffer {
    const [first] = this.#parts;
    if (first === undefined) return nothing;
    if (this.#parts.length > 1 || !Buffer.isBuffer(first))
      this.#parts = [Buffer.concat(this.#parts, this.size)];
    return this.#parts[0] as Buffer;
  }

  /** Callers must not change the data afterwards. */
  write(data: Uint8Array, offset: number): void {
    this.touch();
    if (data.length === 0) return;
    if (offset === this.size) {
      this.#parts.push(data);
    } else {
      const joined = Buffer.alloc(Math.max(this.size, offset + data.length));
      joined.set(this.content());
      joined.set(data, offset);
      this.#parts = [joined];
    }
    this.size = Math.max(this.size, offset + data.length);
  }

  truncate(size: number): void {
    this.touch();
    if (size === this.size) return;
    if (size === 0) this.#parts = [];
    else if (size < this.size) this.#parts = [this.content().subarray(0, size)];
    else this.#parts.push(Buffer.alloc(size - this.size));
    this.size = size;
  }

  setMode(mode: number): void {
    this.mode = mode;
    this.changedMs = clockMs();
  }

  /** Its content or entries change now. */
  touch(): void {
    this.modifiedMs = clockMs();
    this.changedMs = this.modifiedMs;
  }
}

const [directoryType, fileType] = [0o040000, 0o100000];

/** What stat and lstat return, as far as it is used. */
export class InodeStats {
  readonly dev = 1;
  readonly uid = 0;
  readonly gid = 0;
  readonly ino: number;
  readonly mode: number;
  readonly nlink: number;
  readonly size: number;
  readonly mtimeMs: number;
  readonly ctimeMs: number;

  constructor(inode: Inode) {
    this.ino = inode.number;
    this.mode = (inode.entries === undefined ? fileType : directoryType) | inode.mode;
    this.nlink = inode.links;
    this.size = inode.size;
    this.mtimeMs = inode.modifiedMs;
    this.ctimeMs = inode.changedMs;
  }

  get mtime(): Date {
    return new Date(this.mtimeMs);
  }

  get ctime(): Date {
    return new Date(this.ctimeMs);
  }

  isFile(): boolean {
    return (this.mode & fileType) !== 0;
  }

  isDirectory(): boolean {
    return (this.mode & directoryType) !== 0;
  }

  isSymbolicLink(): boolean {
    return false;
  }

  isSocket(): boolean {
    return false;
  }
}
