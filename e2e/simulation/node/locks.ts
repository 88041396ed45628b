import { ground } from "../world/ground.ts";
import type { Process } from "../world/schedule.ts";

/** Between two polls of a lock, in microseconds. */
const pollUs = 10_000;

/** Whether other holders of the lock are allowed. */
export type LockKind = "shared" | "exclusive";

/** A process that can hold a lock. */
export interface LockHolder {
  readonly process: Process;
  /** The process that reads its stdout. */
  readonly runtime: Process;
}

/** An executed plugin and the processes that it has left behind, which are in its process group. */
export interface ProcessGroup {
  kill(): void;
}

/** The locks of one file: the flock, and the one that delegates inherit (shim/lock.c). */
export class LockedFile {
  readonly #holders = new Map<LockHolder, LockKind>();
  readonly #waiting = new Set<() => void>();
  #inherited: InheritedLock | undefined;
  /** What the file's content names; see `straggler_note`. */
  group: ProcessGroup | undefined;

  get holders(): readonly LockHolder[] {
    return [...this.#holders.keys()];
  }

  /**
   * As `flock(LOCK_NB)`: a failed change of the kind loses the lock. It ends with the process.
   * @returns whether the holder has the lock
   */
  tryLock(holder: LockHolder, kind: LockKind): boolean {
    if (this.#holders.get(holder) === kind) return true;
    this.unlock(holder);
    for (const other of this.#holders.values()) {
      if (kind === "exclusive" || other === "exclusive") return false;
    }
    this.#holders.set(holder, kind);
    holder.process.onEnd(() => this.unlock(holder));
    return true;
  }

  unlock(holder: LockHolder): void {
    if (this.#holders.delete(holder)) this.#wake();
  }

  /** Takes the inherited lock. @returns false while another open file has it */
  tryInherited(lock: InheritedLock): boolean {
    this.#inherited ??= lock;
    return this.#inherited === lock;
  }

  /** Whether processes have the inherited lock. */
  get isInherited(): boolean {
    return this.#inherited !== undefined;
  }

  releaseInherited(lock: InheritedLock): void {
    if (this.#inherited !== lock) return;
    this.#inherited = undefined;
    this.#wake();
  }

  /** Resolves when a poll notices that a lock was released, or that the time has come. */
  released(untilUs: number): Promise<void> {
    const { schedule, random } = ground();
    const { current } = schedule;
    return new Promise((resolve) => {
      const wake = (): void => {
        this.#waiting.delete(wake);
        schedule.cancel(timer);
        schedule.at(random.integer(0, pollUs), resolve, current);
      };
      const timer = schedule.at(untilUs - schedule.nowUs, wake);
      this.#waiting.add(wake);
    });
  }

  #wake(): void {
    for (const wake of this.#waiting) wake();
  }
}

/** An open-file-description lock: of a file opened once, the processes share it that inherit it. */
export class InheritedLock {
  readonly #file: LockedFile;
  readonly #processes = new Set<Process>();

  constructor(file: LockedFile, shim: Process) {
    this.#file = file;
    this.pass(shim);
  }

  /** Gives a process a descriptor of the open file, which it has until it ends. */
  pass(process: Process): void {
    this.#processes.add(process);
    process.onEnd(() => this.close(process));
  }

  /** The lock ends with the last descriptor. */
  close(process: Process): void {
    this.#processes.delete(process);
    if (this.#processes.size === 0) this.#file.releaseInherited(this);
  }
}

/** The locked files of a running machine, by inode. */
export class Locks {
  readonly #files = new Map<number, LockedFile>();

  file(inode: number): LockedFile {
    const known = this.#files.get(inode);
    if (known !== undefined) return known;
    const file = new LockedFile();
    this.#files.set(inode, file);
    return file;
  }

  /** The inodes of files with an open-file-description lock, as a container sees them. */
  inodes(): number[] {
    return [...this.#files].flatMap(([inode, file]) => (file.isInherited ? [inode] : []));
  }
}
