import { constants } from "node:fs";
import type { Process } from "../schedule.ts";
import { systemError } from "./errors.ts";
import type { Inode } from "./inode.ts";

/** An open file. */
export interface Descriptor {
  readonly fd: number;
  readonly inode: Inode;
  readonly path: string;
  readonly flags: number;
  /** Where the next read or write without an offset begins. */
  position: number;
}

const accessModes = constants.O_WRONLY | constants.O_RDWR;

/** The open files of all processes. Those of a process are closed when it ends. */
export class Descriptors {
  readonly #byProcess = new Map<Process, Map<number, Descriptor>>();
  #last = 2;

  open(owner: Process, file: Omit<Descriptor, "fd" | "position">): Descriptor {
    const fd = ++this.#last;
    const { inode, path, flags } = file;
    const descriptor = { fd, inode, path, flags, position: 0 };
    this.#of(owner).set(fd, descriptor);
    return descriptor;
  }

  /** @throws Error EBADF when it is not open, or not for writing although that is asked for */
  get(owner: Process, fd: number, wanted: { syscall: string; writes?: boolean }): Descriptor {
    const descriptor = this.#byProcess.get(owner)?.get(fd);
    const { syscall, writes = false } = wanted;
    const isReadOnly = descriptor !== undefined && (descriptor.flags & accessModes) === 0;
    if (descriptor === undefined || (writes && isReadOnly)) throw systemError("EBADF", { syscall });
    return descriptor;
  }

  close(owner: Process, fd: number): void {
    if (this.#byProcess.get(owner)?.delete(fd) !== true)
      throw systemError("EBADF", { syscall: "close" });
  }

  count(owner: Process): number {
    return this.#byProcess.get(owner)?.size ?? 0;
  }

  #of(owner: Process): Map<number, Descriptor> {
    let files = this.#byProcess.get(owner);
    if (files === undefined) {
      files = new Map();
      this.#byProcess.set(owner, files);
      owner.onEnd(() => this.#byProcess.delete(owner));
    }
    return files;
  }
}
