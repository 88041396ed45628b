import { type DiskOperation, type Entry, rootInode } from "./operations.ts";

/** A file, or a directory where it has entries. */
export interface Inode {
  mode: number;
  content: Buffer;
  readonly entries?: Map<string, number>;
  modifiedMs: number;
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
          const data = Buffer.from(operation.data, "base64");
          const end = Math.max(inode.content.length, operation.offset + data.length);
          inode.content = resized(inode.content, end);
          data.copy(inode.content, operation.offset);
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

  /** Every file and directory that has a name, by its path from the root; directories have no content. */
  *files(directory = rootInode, prefix = ""): Generator<{ path: string } & Inode> {
    for (const [name, number] of [...(this.#inodes.get(directory)?.entries ?? [])].sort()) {
      const inode = this.#inodes.get(number);
      if (inode === undefined) continue;
      yield { path: `${prefix}${name}`, ...inode };
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

function newInode(mode: number, directory: boolean): Inode {
  const inode = { mode, content: Buffer.alloc(0), modifiedMs: Date.now() };
  return directory ? { ...inode, entries: new Map() } : inode;
}

function resized(content: Buffer, size: number): Buffer {
  return Buffer.concat([
    content.subarray(0, size),
    Buffer.alloc(Math.max(0, size - content.length)),
  ]);
}
