import { rootInode } from "../../../powerloss/disk/operations.ts";
import { type ErrorCode, systemError } from "./errors.ts";
import { Inode, type Medium } from "./inode.ts";

/** A file's place: its directory, and its name there. */
export interface Place {
  readonly parent: Inode;
  readonly name: string;
}

/** A file or directory that comes into being. */
interface NewInode {
  readonly mode: number;
  readonly isDirectory: boolean;
  /** @default the next number */
  readonly number?: number;
}

/** Below it everything is on the disk. */
export const diskPath = "/var/lib";

/** Where the machine's media begin; a directory before what is in it. */
const media: readonly { path: string; medium: Medium; number?: number }[] = [
  { path: "", medium: "fixed" },
  { path: "/var", medium: "fixed" },
  { path: "/run", medium: "tmpfs" },
  { path: "/var/run", medium: "tmpfs" },
  { path: diskPath, medium: "disk", number: rootInode },
];

/** Directories and files by their absolute, normal paths. Directories cannot be renamed. */
export class FileTree {
  readonly #directories = new Map<string, Inode>();
  #numbers = rootInode;

  constructor() {
    for (const { path, medium, number = ++this.#numbers } of media) {
      const inode = new Inode({ number, mode: 0o755, medium, isDirectory: true });
      this.#directories.set(path, inode);
      if (path !== "") this.link(this.place(path, "mkdir"), inode);
    }
  }

  /** A directory by its path; "" is the root. */
  directory(path: string): Inode | undefined {
    return this.#directories.get(path);
  }

  /** @returns undefined when nothing is at the path */
  find(path: string): Inode | undefined {
    const end = path.lastIndexOf("/");
    const parent = this.#directories.get(path.slice(0, end));
    return path === "/" ? parent : parent?.entries?.get(path.slice(end + 1));
  }

  /** @throws Error ENOENT, ENOTDIR */
  get(path: string, syscall: string, dest?: string): Inode {
    const inode = this.find(path);
    if (inode === undefined) throw systemError(this.#whyAbsent(path), { syscall, path, dest });
    return inode;
  }

  /** @throws Error ENOENT, ENOTDIR for its directory */
  place(path: string, syscall: string): Place {
    const end = path.lastIndexOf("/");
    const parent = this.#directories.get(path.slice(0, end));
    if (parent === undefined) throw systemError(this.#whyAbsent(path), { syscall, path });
    return { parent, name: path.slice(end + 1) };
  }

  /** Adds a file or directory that is absent. */
  add(path: string, place: Place, { number = ++this.#numbers, ...options }: NewInode): Inode {
    const inode = new Inode({ number, medium: place.parent.medium, ...options });
    if (options.isDirectory) this.#directories.set(path, inode);
    this.link(place, inode);
    return inode;
  }

  link({ parent, name }: Place, inode: Inode): void {
    const replaced = parent.entries?.get(name);
    if (replaced !== undefined) replaced.links -= 1;
    inode.links += 1;
    parent.entries?.set(name, inode);
  }

  unlink({ parent, name }: Place): void {
    const inode = parent.entries?.get(name);
    if (inode !== undefined) inode.links -= 1;
    parent.entries?.delete(name);
  }

  /** Removes everything on a medium. The directories where it begins stay. */
  clear(medium: Medium): void {
    for (const [path, { medium: where, entries }] of this.#directories) {
      if (where !== medium) continue;
      if (media.some((each) => each.path === path)) entries?.clear();
      else this.#directories.delete(path);
    }
  }

  /** The directories at and below a path. */
  *directoriesIn(path: string): Generator<Inode> {
    for (const [each, directory] of this.#directories)
      if (each === path || each.startsWith(`${path}/`)) yield directory;
  }

  /** Why there is nothing at a path. */
  #whyAbsent(path: string): ErrorCode {
    for (let end = path.lastIndexOf("/"); end > 0; end = path.lastIndexOf("/", end - 1)) {
      const before = path.lastIndexOf("/", end - 1);
      const parent = this.#directories.get(path.slice(0, before));
      const file = parent?.entries?.get(path.slice(before + 1, end));
      if (file !== undefined) return file.entries === undefined ? "ENOTDIR" : "ENOENT";
    }
    return "ENOENT";
  }
}
