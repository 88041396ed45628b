import { bytesOf, type DiskOperation, type Entry, rootInode } from "./operations.ts";

/** A file, or a directory where it has entries. */
export interface Inode {
  mode: number;
  content: Buffer;
  readonly entries?: Map<string, number>;
  modifiedMs: number;
}

/** A file or directory with its path from the root. */
export interface NamedInode extends Inode {
  readonly path: string;
  readonly number: number;
}

/** A file system in memory. What makes no sense there (as after a power loss that took half of it) changes nothing. */
export class Tree {
  readonly #inodes = new Map<number, Inode>([[rootInode, newInode(0o755, true)]]);

  inode(number: number): Inode | undefined {
    return this.#inodes.get(number);
  }

  lookup({ parent, name }: Entry): number | undefined {
    return this.#inodes.get(parent)?.entries?.get(name);
  }

  /** Makes the inode of a `create`, which gets its name by {@link apply}. */
  prepare(operation: DiskOperation): void {
    if (operation.kind === "create")
      this.#inodes.set(operation.inode, newInode(operation.mode, operation.directory));
  }

  apply(operation: DiskOperation): void {
    switch (operation.kind) {
      case "create":
      case "link":
        this.#entries(operation.entry)?.set(operation.entry.name, operation.inode);
        break;
      case "unlink":
        this.#unlink(operation.entry, operation.inode);
        break;
      case "rename":
        this.#unlink(operation.entry, operation.inode);
        this.#entries(operation.to)?.set(operation.to.name, operation.inode);
        break;
      case "write":
        this.#change(operation.inode, (inode) => {
          inode.content = written(inode.content, bytesOf(operation.data), operation.offset);
        });
        break;
      case "truncate":
        this.#change(operation.inode, (inode) => {
          inode.content = resized(inode.content, operation.size);
        });
        break;
      case "mode":
        this.#change(operation.inode, (inode) => {
          inode.mode = operation.mode;
        });
        break;
    }
  }

  /** Every file and directory that has a name, a directory before what is in it; directories have no content. */
  *files(directory = rootInode, prefix = ""): Generator<NamedInode> {
    for (const [name, number] of [...(this.#inodes.get(directory)?.entries ?? [])].sort()) {
      const inode = this.#inodes.get(number);
      if (inode === undefined) continue;
      yield { path: `${prefix}${name}`, number, ...inode };
      if (inode.entries !== undefined) yield* this.files(number, `${prefix}${name}/`);
    }
  }

  #entries({ parent }: Entry): Map<string, number> | undefined {
    const inode = this.#inodes.get(parent);
    if (inode !== undefined) inode.modifiedMs = Date.now();
    return inode?.entries;
  }

  #unlink(entry: Entry, inode: number): void {
    const entries = this.#entries(entry);
    if (entries?.get(entry.name) === inode) entries.delete(entry.name);
  }

  #change(number: number, change: (inode: Inode) => void): void {
    const inode = this.#inodes.get(number);
    if (inode === undefined) return;
    change(inode);
    inode.modifiedMs = Date.now();
  }
}

const nothing = Buffer.alloc(0);

function newInode(mode: number, directory: boolean): Inode {
  const inode = { mode, content: nothing, modifiedMs: Date.now() };
  return directory ? { ...inode, entries: new Map() } : inode;
}

function resized(content: Buffer, size: number): Buffer {
  if (size <= content.length) return content.subarray(0, size);
  const larger = Buffer.alloc(size);
  larger.set(content);
  return larger;
}

function written(content: Buffer, data: Uint8Array, offset: number): Buffer {
  const before = offset <= content.length ? content.subarray(0, offset) : resized(content, offset);
  return Buffer.concat([before, data, content.subarray(offset + data.length)]);
}
