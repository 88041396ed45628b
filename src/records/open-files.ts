import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readFileSync,
} from "node:fs";
import { atomicWrite } from "#lib/files/atomic-write.ts";
import { syncDirectory, syncFile } from "#lib/files/sync.ts";
import { findNewestPlan } from "#protocol/plan.ts";
import { putFile, writeAt } from "./state-file.ts";

/** How long after an update it may still be lost in a power loss. */
const delayMs = 500;
/** A file is written anew, with its newest content alone, before it passes this or so many times that content. */
const lengthMax = 256 * 1024;
const contentsMax = 8;

/** A file that is open for updates. */
interface OpenFile {
  readonly fd: number;
  readonly inode: number;
  /** Where the next update goes. */
  end: number;
  /** Whether the last update is not durable yet. */
  isDirty: boolean;
  /** A sync that is under way, during which the file must not be closed. Never rejects. */
  syncing: Promise<unknown>;
}

/**
 * The files of records, to which updates are appended. They stay open until their last update is durable, half
 * a second later: a commit of the file system's journal delays whatever else a call writes. What a power
 * loss leaves of an update that was not durable does not count, and what was durable before it stays.
 */
export class OpenFiles {
  readonly #dir: string;
  readonly #files = new Map<string, OpenFile>();
  #timer: NodeJS.Timeout | undefined;
  #lastSync: Promise<void> = Promise.resolve();

  constructor(dir: string) {
    this.#dir = dir;
  }

  /**
   * Puts a new file in the place of what is there. Every process sees it when this returns; `synced` resolves
   * when it is durable.
   */
  put(path: string, content: Uint8Array): { readonly synced: Promise<void> } {
    this.release(path);
    const fd = putFile(path, content);
    const synced = Promise.all([syncFile(fd), syncDirectory(this.#dir)]).then(() => undefined);
    const syncing = synced.catch(() => undefined);
    const inode = fstatSync(fd).ino;
    this.#files.set(path, { fd, inode, end: content.length, isDirty: false, syncing });
    this.#schedule();
    return { synced };
  }

  /**
   * Appends newer content. Every process sees it when this resolves.
   * @throws Error when that fails, or when the file was removed or replaced by another process
   */
  async append(path: string, content: Uint8Array): Promise<void> {
    const file = this.#files.get(path) ?? this.#open(path);
    const end = file.end + content.length;
    if (end > Math.max(lengthMax, contentsMax * content.length)) {
      this.release(path);
      return atomicWrite(path, content);
    }
    try {
      writeAt(file.fd, content, file.end);
    } catch (error) {
      ftruncateSync(file.fd, file.end);
      throw error;
    }
    file.end = end;
    file.isDirty = true;
    this.#schedule();
    if (lstatSync(path, { throwIfNoEntry: false })?.ino === file.inode) return;
    this.release(path);
    throw new Error("the sandbox was detached meanwhile");
  }

  /** Closes a file that is removed or replaced; what is not durable of it need not become so. */
  release(path: string): void {
    const file = this.#files.get(path);
    if (file === undefined) return;
    this.#files.delete(path);
    close(file);
  }

  /** Makes every update durable, as far as that is possible. Never rejects. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#lastSync = this.#lastSync.then(() => this.#sync());
    return this.#lastSync;
  }

  /** Opens a file after what counts in it: what an update that was cut short left behind is cut off. */
  #open(path: string): OpenFile {
    const fd = openSync(path, constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      const { end } = findNewestPlan(readFileSync(fd));
      ftruncateSync(fd, end);
      const { ino } = fstatSync(fd);
      const file = { fd, inode: ino, end, isDirty: false, syncing: Promise.resolve() };
      this.#files.set(path, file);
      return file;
    } catch (error) {
      closeSync(fd);
      throw error;
    }
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => void this.flush(), delayMs).unref();
  }

  /** An update that is made meanwhile opens its file again, and is made durable the next time. */
  async #sync(): Promise<void> {
    const files = [...this.#files.values()];
    this.#files.clear();
    const syncs = files.map(async (file) => {
      if (file.isDirty) await syncFile(file.fd).catch(() => undefined);
      close(file);
    });
    await Promise.all(syncs);
  }
}

function close({ fd, syncing }: OpenFile): void {
  void syncing.then(() => closeSync(fd));
}
