import { constants } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { type DiskOperation, type Entry, rootInode } from "./operations.ts";
import { type Inode, Tree } from "./tree.ts";

const { errno } = constants;

/** The number of an error that a system call gets. */
export class Refused extends Error {
  readonly errno: number;

  constructor(name: keyof typeof errno) {
    super(name);
    this.errno = errno[name];
  }
}

/** A file system in memory with a log of what was done to it. Its methods throw {@link Refused}. */
export class RecordedDisk {
  readonly operations: DiskOperation[] = [];
  readonly #tree = new Tree();
  readonly #syncMs: number;
  #inodes = rootInode;

  /** Each sync takes that long. */
  constructor(syncMs: number) {
    this.#syncMs = syncMs;
  }

  record(operation: DiskOperation): void {
    this.operations.push(operation);
    this.#tree.prepare(operation);
    this.#tree.apply(operation);
  }

  inode(number: number): Inode {
    const inode = this.#tree.inode(number);
    if (inode === undefined) throw new Refused("ENOENT");
    return inode;
  }

  lookup(entry: Entry): number {
    const number = this.#tree.lookup(entry);
    if (number === undefined) throw new Refused("ENOENT");
    return number;
  }

  create(entry: Entry, mode: number, directory: boolean): number {
    if (this.#tree.lookup(entry) !== undefined) throw new Refused("EEXIST");
    const inode = ++this.#inodes;
    this.record({ kind: "create", inode, entry, mode: mode & 0o7777, directory });
    return inode;
  }

  /** Removes a file, or an empty directory. */
  remove(entry: Entry): void {
    const inode = this.lookup(entry);
    this.#mustBeEmpty(inode);
    this.record({ kind: "unlink", inode, entry });
  }

  /** `flags` are those of renameat2(2); of them RENAME_NOREPLACE is there. */
  rename(entry: Entry, to: Entry, flags = 0): void {
    const noReplace = 1;
    if (flags > noReplace) throw new Refused("EINVAL");
    const existing = this.#tree.lookup(to);
    if (flags === noReplace && existing !== undefined) throw new Refused("EEXIST");
    if (existing !== undefined) this.#mustBeEmpty(existing);
    this.record({ kind: "rename", inode: this.lookup(entry), entry, to });
  }

  /** What was done to the inode before now is durable when this resolves. */
  async sync(inode: number): Promise<void> {
    const covers = this.operations.length;
    await sleep(this.#syncMs);
    this.record({ kind: "sync", inode, covers });
  }

  #mustBeEmpty(inode: number): void {
    if ((this.#tree.inode(inode)?.entries?.size ?? 0) > 0) throw new Refused("ENOTEMPTY");
  }
}
