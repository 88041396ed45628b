import { type FileHandle, open, rename, stat } from "node:fs/promises";
import { join } from "node:path";
import type { RecordKey } from "#engine/record.ts";
import type { KeyedMutex } from "#lib/concurrency/keyed-mutex.ts";
import { syncDirectory } from "#lib/files/atomic-write.ts";
import { latestFileName, planFileName, recordFileName } from "#lib/files/state-files.ts";
import { ignoreAbsent } from "./state-file.ts";

/** How long after an update its content may still be lost in a power loss. */
const delayMs = 500;

/** Options of {@link DelayedSync}. */
interface DelayedSyncOptions {
  readonly dir: string;
  /** Held by whoever replaces or removes the files of a sandbox interface, by its record's name. */
  readonly writing: KeyedMutex;
}

/**
 * Makes updates durable off the path of the call that made them: a commit of the file system's journal
 * delays whatever else the call writes. An update replaces the file itself only when it is on the
 * disk: a rename that reaches the disk before the content would leave nothing usable.
 */
export class DelayedSync {
  readonly #options: DelayedSyncOptions;
  readonly #keys = new Map<string, RecordKey>();
  #timer: NodeJS.Timeout | undefined;
  #lastSync: Promise<void> = Promise.resolve();

  constructor(options: DelayedSyncOptions) {
    this.#options = options;
  }

  /** Makes the latest content of a record and its plan durable before long. */
  schedule(key: RecordKey): void {
    this.#keys.set(recordFileName(key), key);
    this.#timer ??= setTimeout(() => void this.flush(), delayMs).unref();
  }

  /** Makes durable whatever is scheduled and still has an update. Never rejects. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#lastSync = this.#lastSync.then(() => this.#sync());
    return this.#lastSync;
  }

  async #sync(): Promise<void> {
    const keys = [...this.#keys.values()];
    this.#keys.clear();
    if (keys.length === 0) return;
    const files = keys.flatMap((key) => [
      this.#promote(key, recordFileName(key)),
      this.#promote(key, planFileName(key)),
    ]);
    await Promise.allSettled(files);
    await syncDirectory(this.#options.dir).catch(() => undefined);
  }

  async #promote(key: RecordKey, name: string): Promise<void> {
    const path = join(this.#options.dir, name);
    const latest = latestFileName(path);
    const opened = await open(latest, "r").catch(ignoreAbsent);
    if (opened === undefined) return;
    await using file = opened;
    await file.sync();
    using _turn = await this.#options.writing.acquire(recordFileName(key));
    if (await isStillAt(latest, file)) await rename(latest, path);
  }
}

/** Whether the path has not been given to another file meanwhile, which is not synced. */
async function isStillAt(path: string, file: FileHandle): Promise<boolean> {
  const [found, own] = await Promise.all([stat(path).catch(ignoreAbsent), file.stat()]);
  return found?.ino === own.ino;
}
