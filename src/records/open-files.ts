import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  lstatSync,
  openSync,
  type Stats,
} from "node:fs";
import { chmod } from "node:fs/promises";
import type { StoredRecord } from "#engine/record/teardown-plan.ts";
import { atomicWrite } from "#lib/files/atomic-write.ts";
import { readOpenFile } from "#lib/files/read-file.ts";
import { syncDirectory, syncFile } from "#lib/files/sync.ts";
import { findNewestPlan } from "#protocol/plan.ts";
import { formatRecord } from "./record-file.ts";
import { putFile, readMax, writeAt } from "./state-file.ts";

/** The time after which an update is synced; until then a power loss may lose it. */
const delayMs = 500;
/** Compacts a file before it exceeds both this length and this multiple of its newest content. */
const lengthMax = 64 * 1024;
const contentsMax = 8;

interface OpenFile {
  readonly fd: number;
  readonly inode: number;
  /** When this process wrote it. */
  mtimeMs: number;
  /** The offset of the next update. */
  end: number;
  /** The newest record; undefined before the first update of a file that was there. */
  stored: StoredRecord | undefined;
  isDirty: boolean;
  /** The current sync, during which the file must stay open. Never rejects. */
  syncing: Promise<unknown>;
}

/**
 * The files of records, to which updates are appended. They stay open until their last update is
 * synced, half a second later, because a journal commit delays all other writes of a call. After a
 * power loss an unsynced update is ignored, and what was synced before it is intact.
 */
export class OpenFiles {
  readonly #dir: string;
  readonly #files = new Map<string, OpenFile>();
  #timer: NodeJS.Timeout | undefined;
  #lastSync: Promise<void> = Promise.resolve();

  constructor(dir: string) {
    this.#dir = dir;
  }

  /** Atomically replaces a file, visible to all processes; `synced` resolves when it is durable. */
  put(path: string, stored: StoredRecord): { readonly synced: Promise<void> } {
    const bytes = formatRecord(stored.record, stored.plan);
    this.release(path);
    const fd = putFile(path, bytes);
    const synced = Promise.all([syncFile(fd), syncDirectory(this.#dir)]).then(() => undefined);
    const syncing = synced.catch(() => undefined);
    const { ino: inode, mtimeMs } = fstatSync(fd);
    const end = bytes.length;
    this.#files.set(path, { fd, inode, mtimeMs, end, stored, isDirty: false, syncing });
    this.#schedule();
    return { synced };
  }

  /**
   * Appends newer content, visible to all processes when it resolves.
   * @throws Error when that fails, or another process removed or replaced the file
   */
  async append(path: string, stored: StoredRecord): Promise<void> {
    const bytes = formatRecord(stored.record, stored.plan);
    const file = this.#files.get(path) ?? this.#open(path);
    const end = file.end + bytes.length;
    if (end > Math.max(lengthMax, contentsMax * bytes.length)) {
      this.#files.delete(path);
      return compact(path, bytes, file).finally(() => close(file));
    }
    try {
      writeAt(file.fd, bytes, file.end);
    } catch (error) {
      ftruncateSync(file.fd, file.end);
      throw error;
    }
    file.end = end;
    file.stored = stored;
    file.isDirty = true;
    this.#schedule();
    const status = lstatSync(path, { throwIfNoEntry: false });
    file.mtimeMs = status?.mtimeMs ?? 0;
    if (status?.ino === file.inode) return;
    this.release(path);
    throw new Error("the sandbox was detached meanwhile");
  }

  /** The newest record of an open file, and its status, unless another process changed it. */
  newest(path: string): { readonly stored: StoredRecord; readonly status: Stats } | undefined {
    const file = this.#files.get(path);
    if (file?.stored === undefined) return undefined;
    const status = lstatSync(path, { throwIfNoEntry: false });
    if (status?.ino !== file.inode || status.size !== file.end) return undefined;
    return status.mtimeMs === file.mtimeMs ? { stored: file.stored, status } : undefined;
  }

  /** Closes a file that is removed or replaced, without syncing it. */
  release(path: string): void {
    const file = this.#files.get(path);
    if (file === undefined) return;
    this.#files.delete(path);
    close(file);
  }

  /** Syncs all updates as far as possible. Never rejects. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#lastSync = this.#lastSync.then(() => this.#sync());
    return this.#lastSync;
  }

  /** Opens a file and cuts off an incomplete update at its end. */
  #open(path: string): OpenFile {
    const fd = openSync(path, constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      const { end } = findNewestPlan(readOpenFile(fd, { path, max: readMax }).bytes);
      ftruncateSync(fd, end);
      const { ino: inode, mtimeMs } = fstatSync(fd);
      const state = { stored: undefined, isDirty: false, syncing: Promise.resolve() };
      const file: OpenFile = { fd, inode, mtimeMs, end, ...state };
      this.#files.set(path, file);
      // Closes it also if the update fails.
      this.#schedule();
      return file;
    } catch (error) {
      closeSync(fd);
      throw error;
    }
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => void this.flush(), delayMs).unref();
  }

  /** An update during the sync opens its file again, and is synced next time. */
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

/** Replaces a file by its newest content, with the mark of a DEL that has begun, perhaps meanwhile. */
async function compact(path: string, bytes: Uint8Array, { fd }: { readonly fd: number }) {
  const mode = (): number => fstatSync(fd).mode & 0o7777;
  const before = mode();
  await atomicWrite(path, bytes, { mode: before });
  if (mode() !== before) await chmod(path, mode());
}

function close({ fd, syncing }: OpenFile): void {
  void syncing.then(() => closeSync(fd));
}
