import { open } from "node:fs/promises";
import { join } from "node:path";
import { syncDirectory } from "#lib/atomic-write.ts";

/** How long after an update its content may still be lost in a power loss. */
const delayMs = 500;

/**
 * Makes replaced files durable off the path of the call that replaced them: a commit of the file
 * system's journal delays whatever else the call writes.
 */
export class DelayedSync {
  readonly #dir: string;
  readonly #names = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #lastSync: Promise<void> = Promise.resolve();

  constructor(dir: string) {
    this.#dir = dir;
  }

  /** Syncs these files of the directory before long. */
  schedule(names: readonly string[]): void {
    for (const name of names) this.#names.add(name);
    this.#timer ??= setTimeout(() => void this.flush(), delayMs).unref();
  }

  /** Syncs every scheduled file that still exists, and the directory. Never rejects. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#lastSync = this.#lastSync.then(() => this.#sync());
    return this.#lastSync;
  }

  async #sync(): Promise<void> {
    const names = [...this.#names];
    this.#names.clear();
    if (names.length === 0) return;
    await Promise.allSettled([
      ...names.map((name) => syncFile(join(this.#dir, name))),
      syncDirectory(this.#dir),
    ]);
  }
}

async function syncFile(path: string): Promise<void> {
  await using file = await open(path, "r");
  await file.sync();
}
