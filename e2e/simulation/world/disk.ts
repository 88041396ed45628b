import { constants } from "node:fs";
import type { PickOne } from "../../powerloss/power-loss.ts";
import { beginChange, currentProcess, faultOf } from "./disk/changes.ts";
import { type Descriptor, Descriptors } from "./disk/descriptors.ts";
import { systemError } from "./disk/errors.ts";
import { FileSystem } from "./disk/file-system.ts";
import type { FileTree } from "./disk/file-tree.ts";
import { type Inode, InodeStats } from "./disk/inode.ts";
import { kernelFile } from "./disk/kernel-files.ts";
import { ground } from "./ground.ts";
import type { Process } from "./schedule.ts";

const { O_CREAT, O_EXCL, O_TRUNC, O_WRONLY, O_RDWR } = constants;
/** Of the processes of a node. */
const umask = 0o022;
/** How long an fsync takes, in microseconds. */
const [syncMinUs, syncMaxUs, busySyncUs] = [200, 20_000, 2e6];

/** How a file is opened. */
export interface OpenOptions {
  readonly flags: number;
  /** Of a new file, before the umask. @default 0o666 */
  readonly mode?: number;
}

/**
 * The files of the machine. The methods are system calls of the process whose code runs, and take
 * no time but for {@link sync}. They throw the errors of node:fs, and ProcessEndedError in a process
 * that was killed.
 */
export class Disk {
  readonly #files = new FileSystem();
  readonly #tree: FileTree = this.#files.tree;
  readonly #descriptors = new Descriptors();
  /** The paths of files whose sync failed since the machine started. */
  readonly unsynced = new Set<string>();
  /** Are called with the path of each change that inotify reports of a directory. */
  readonly watchers = new Set<(path: string) => void>();

  constructor() {
    this.#installDirectories();
  }

  /** Those that every node has, also empty ones, which the log of the disk does not keep. */
  #installDirectories(): void {
    for (const path of ["/var/lib/plexus", "/var/lib/cni", "/var/lib/cni/results"])
      this.#files.installDirectory(path);
  }

  /** @returns a descriptor, which is closed when the process ends */
  open(path: string, options: OpenOptions): number {
    const owner = currentProcess();
    const inode = this.#open(path, options);
    return this.#descriptors.open(owner, { inode, path, flags: options.flags }).fd;
  }

  close(fd: number): void {
    this.#descriptors.close(currentProcess(), fd);
  }

  /** All from the descriptor's position on. */
  read(fd: number): Buffer {
    const file = this.#descriptor(fd, { syscall: "read" });
    if ((file.flags & O_WRONLY) !== 0) throw systemError("EBADF", { syscall: "read" });
    const content = contentOf(file.inode).subarray(file.position);
    file.position += content.length;
    return content;
  }

  /** Writes all. Callers must not change the data afterwards. @param offset the descriptor's position */
  write(fd: number, data: Uint8Array, offset?: number): void {
    const file = this.#descriptor(fd, { syscall: "write", writes: true });
    this.#write(file, data, offset ?? file.position);
    if (offset === undefined) file.position += data.length;
  }

  truncate(fd: number, size: number): void {
    const { inode, path } = this.#descriptor(fd, { syscall: "ftruncate", writes: true });
    const failure = faultOf("ftruncate", path);
    if (failure !== undefined) throw systemError(failure, { syscall: "ftruncate" });
    this.#files.truncate(inode, size);
    this.#tell(path);
  }

  setMode(fd: number, mode: number): void {
    const { inode, path } = this.#descriptor(fd, { syscall: "fchmod" });
    const failure = faultOf("fchmod", path);
    if (failure !== undefined) throw systemError(failure, { syscall: "fchmod" });
    this.#files.setMode(inode, mode);
  }

  status(fd: number): InodeStats {
    return new InodeStats(this.#descriptor(fd, { syscall: "fstat" }).inode);
  }

  /** Resolves when what was done to the file or directory before now is durable; never if the process ends. */
  sync(fd: number): Promise<void> {
    const { inode, path } = this.#descriptor(fd, { syscall: "fsync" });
    const { schedule, random } = ground();
    const failure = faultOf("fsync", path);
    if (failure !== undefined) this.unsynced.add(path);
    // A disk that is busy takes seconds.
    const delayUs = random.chance(0.02)
      ? random.duration(syncMaxUs, busySyncUs)
      : random.duration(syncMinUs, syncMaxUs);
    this.#files.sync(inode, failure === undefined ? schedule.nowUs + delayUs : Infinity);
    return new Promise((resolve, reject) => {
      schedule.at(delayUs, () => {
        if (failure === undefined) resolve();
        else reject(systemError(failure, { syscall: "fsync" }));
      });
    });
  }

  /** @returns undefined when nothing is at the path */
  lstat(path: string): InodeStats | undefined {
    currentProcess();
    const inode = this.#tree.find(path);
    return inode === undefined ? undefined : new InodeStats(inode);
  }

  /** @throws Error ENOENT */
  stat(path: string, syscall = "stat"): InodeStats {
    currentProcess();
    return new InodeStats(this.#tree.get(path, syscall));
  }

  exists(path: string): boolean {
    currentProcess();
    return this.#tree.find(path) !== undefined;
  }

  rename(path: string, dest: string): void {
    currentProcess();
    const syscall = "rename";
    const inode = this.#tree.get(path, syscall, dest);
    const [from, to] = [this.#tree.place(path, syscall), this.#tree.place(dest, syscall)];
    const isDirectory = (inode.entries ?? to.parent.entries?.get(to.name)?.entries) !== undefined;
    if (isDirectory) throw systemError("EISDIR", { syscall, path, dest });
    if (from.parent.medium !== to.parent.medium)
      throw systemError("EXDEV", { syscall, path, dest });
    beginChange(syscall, path, dest);
    this.#files.rename(inode, from, to);
    this.#tell(path);
    this.#tell(dest);
  }

  /** Removes a file. */
  unlink(path: string, syscall = "unlink"): void {
    currentProcess();
    const inode = this.#tree.get(path, syscall);
    if (inode.entries !== undefined) throw systemError("EISDIR", { syscall, path });
    beginChange(syscall, path);
    this.#files.unlink(inode, this.#tree.place(path, syscall));
    this.#tell(path);
  }

  chmod(path: string, mode: number): void {
    currentProcess();
    const inode = this.#tree.get(path, "chmod");
    beginChange("chmod", path);
    this.#files.setMode(inode, mode);
  }

  mkdir(path: string, mode = 0o777): void {
    currentProcess();
    const syscall = "mkdir";
    if (this.#tree.find(path) !== undefined) throw systemError("EEXIST", { syscall, path });
    const place = this.#tree.place(path, syscall);
    beginChange(syscall, path);
    this.#files.create(path, place, { mode: mode & ~umask, isDirectory: true }).touch();
  }

  /** The entries of a directory, and whether they are directories, in no particular order. */
  list(path: string): [name: string, isDirectory: boolean][] {
    currentProcess();
    const { entries } = this.#tree.get(path, "scandir");
    if (entries === undefined) throw systemError("ENOTDIR", { syscall: "scandir", path });
    return Array.from(entries, ([name, inode]) => [name, inode.entries !== undefined]);
  }

  readFile(path: string): Buffer {
    currentProcess();
    const provided = kernelFile(path);
    return provided === undefined ? contentOf(this.#tree.get(path, "open")) : Buffer.from(provided);
  }

  /** Creates or empties a file, and then writes to it. */
  writeFile(path: string, content: string | Uint8Array, mode = 0o666): void {
    currentProcess();
    const inode = this.#open(path, { flags: O_WRONLY | O_CREAT | O_TRUNC, mode });
    const data = typeof content === "string" ? Buffer.from(content) : content;
    this.#write({ inode, path }, data, 0);
  }

  /** Puts a file there that is durable, without a process. */
  install(path: string, content: string, mode = 0o644): void {
    this.#files.installFile(path, Buffer.from(content), mode);
  }

  /** The machine starts again after a power loss: chooses what is left of what was not synced, or keeps all. */
  restart(lostAtUs: number, { keepsAll = false } = {}): void {
    const { random } = ground();
    const pick: PickOne = keepsAll
      ? (items) => items[0] as (typeof items)[number]
      : (items) => random.pick(items);
    const survives = this.#files.restart(lostAtUs, pick);
    this.#installDirectories();
    this.unsynced.clear();
    ground().note(() => `disk: of what was not synced: ${survives}`);
  }

  /** The files at and below a path. */
  size(prefix: string): { files: number; bytes: number } {
    return this.#files.size(prefix);
  }

  /** How many files a process has open. */
  openCount(owner: Process): number {
    return this.#descriptors.count(owner);
  }

  #descriptor(fd: number, wanted: { syscall: string; writes?: boolean }): Descriptor {
    return this.#descriptors.get(currentProcess(), fd, wanted);
  }

  #tell(path: string): void {
    for (const watcher of this.watchers) watcher(path);
  }

  #open(path: string, { flags, mode = 0o666 }: OpenOptions): Inode {
    const syscall = "open";
    const mayCreate = (flags & O_CREAT) !== 0;
    const inode = mayCreate ? this.#tree.find(path) : this.#tree.get(path, syscall);
    if (inode === undefined) {
      const place = this.#tree.place(path, syscall);
      beginChange("create", path);
      const created = this.#files.create(path, place, { mode: mode & ~umask });
      created.touch();
      this.#tell(path);
      return created;
    }
    if (mayCreate && (flags & O_EXCL) !== 0) throw systemError("EEXIST", { syscall, path });
    if (inode.entries !== undefined && (flags & (O_WRONLY | O_RDWR)) !== 0)
      throw systemError("EISDIR", { syscall, path });
    if ((flags & O_TRUNC) !== 0) {
      beginChange("truncate", path);
      this.#files.truncate(inode, 0);
      this.#tell(path);
    }
    return inode;
  }

  #write({ inode, path }: Pick<Descriptor, "inode" | "path">, data: Uint8Array, at: number): void {
    const failure = faultOf("write", path, data.length);
    // A disk that becomes full may have taken a part.
    const isPart = failure !== undefined && ground().random.chance(0.5);
    if (failure === undefined || isPart) {
      this.#files.write(inode, isPart ? data.subarray(0, data.length >> 1) : data, at);
      this.#tell(path);
    }
    if (failure !== undefined) throw systemError(failure, { syscall: "write" });
  }
}

/** @throws Error EISDIR */
function contentOf(inode: Inode): Buffer {
  if (inode.entries !== undefined) throw systemError("EISDIR", { syscall: "read" });
  return inode.content();
}
