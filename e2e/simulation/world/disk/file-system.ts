import type { DiskOperation } from "../../../powerloss/disk/operations.ts";
import type { PickOne, Survival } from "../../../powerloss/power-loss.ts";
import { clockMs } from "../ground.ts";
import { DiskLog } from "./disk-log.ts";
import { diskPath, FileTree, type Place } from "./file-tree.ts";
import type { Inode } from "./inode.ts";

/** A file or directory that comes into being. */
interface CreateOptions {
  readonly mode: number;
  /** @default false */
  readonly isDirectory?: boolean;
}

/** All files of the machine, and the log of what was done to those on the disk. */
export class FileSystem {
  readonly tree = new FileTree();
  readonly #log = new DiskLog();
  /** Those on the disk by number: a power loss may bring back one that has no name. */
  readonly #inodes = new Map<number, Inode>();

  create(path: string, place: Place, options: CreateOptions): Inode {
    const { mode, isDirectory = false } = options;
    const inode = this.tree.add(path, place, { mode, isDirectory });
    if (inode.medium !== "disk") return inode;
    this.#inodes.set(inode.number, inode);
    const entry = entryOf(place);
    this.#log.push({ kind: "create", inode: inode.number, entry, mode, directory: isDirectory });
    return inode;
  }

  write(inode: Inode, data: Uint8Array, offset: number): void {
    inode.write(data, offset);
    this.#record(inode, { kind: "write", inode: inode.number, offset, data });
  }

  truncate(inode: Inode, size: number): void {
    const isChange = inode.size !== size;
    inode.truncate(size);
    if (isChange) this.#record(inode, { kind: "truncate", inode: inode.number, size });
  }

  setMode(inode: Inode, mode: number): void {
    inode.setMode(mode);
    this.#record(inode, { kind: "mode", inode: inode.number, mode });
  }

  rename(inode: Inode, from: Place, to: Place): void {
    this.tree.unlink(from);
    this.tree.link(to, inode);
    inode.changedMs = clockMs();
    const [entry, target] = [entryOf(from), entryOf(to)];
    this.#record(inode, { kind: "rename", inode: inode.number, entry, to: target });
  }

  unlink(inode: Inode, place: Place): void {
    this.tree.unlink(place);
    this.#record(inode, { kind: "unlink", inode: inode.number, entry: entryOf(place) });
  }

  /** Makes what was done to an inode so far durable at a time, unless the power fails before. */
  sync(inode: Inode, endsAtUs: number): void {
    if (inode.medium === "disk") this.#log.sync(inode.number, endsAtUs);
  }

  /** Makes a directory, and those on the way to it, which is durable. */
  installDirectory(path: string): Inode {
    const found = this.tree.directory(path);
    if (found !== undefined) return found;
    const parent = this.installDirectory(path.slice(0, path.lastIndexOf("/")));
    const name = path.slice(path.lastIndexOf("/") + 1);
    const inode = this.create(path, { parent, name }, { mode: 0o755, isDirectory: true });
    this.sync(parent, 0);
    return inode;
  }

  /** Makes or replaces a file, which is durable. */
  installFile(path: string, content: Buffer, mode: number): void {
    const parent = this.installDirectory(path.slice(0, path.lastIndexOf("/")));
    const place = { parent, name: path.slice(path.lastIndexOf("/") + 1) };
    const existing = parent.entries?.get(place.name);
    if (existing !== undefined) this.unlink(existing, place);
    const inode = this.create(path, place, { mode });
    this.write(inode, content, 0);
    this.sync(inode, 0);
    this.sync(parent, 0);
  }

  /** Leaves what a power loss at a time leaves. @returns the kind of loss, for people */
  restart(lostAtUs: number, pick: PickOne): Survival {
    const { survives, files } = this.#log.remains(lostAtUs, pick);
    this.tree.clear("disk");
    this.tree.clear("tmpfs");
    for (const { path, number, mode, content, entries } of files) {
      const before = this.#inodes.get(number);
      const isDirectory = entries !== undefined;
      const where = `${diskPath}/${path}`;
      const inode = this.tree.add(where, this.tree.place(where, "open"), {
        number,
        mode,
        isDirectory,
      });
      if (!isDirectory) inode.write(content, 0);
      inode.modifiedMs = before?.modifiedMs ?? 0;
      inode.changedMs = before?.changedMs ?? 0;
      this.#inodes.set(number, inode);
    }
    this.#log.restart(files);
    return survives;
  }

  /** The files at and below a path. */
  size(path: string): { files: number; bytes: number } {
    let [files, bytes] = [0, 0];
    for (const { entries } of this.tree.directoriesIn(path)) {
      for (const inode of entries?.values() ?? []) {
        if (inode.entries !== undefined) continue;
        files += 1;
        bytes += inode.size;
      }
    }
    return { files, bytes };
  }

  #record(inode: Inode, operation: DiskOperation): void {
    if (inode.medium === "disk") this.#log.push(operation);
  }
}

function entryOf({ parent, name }: Place): { parent: number; name: string } {
  return { parent: parent.number, name };
}
