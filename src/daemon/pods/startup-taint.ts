import type { Logger } from "#engine/ports.ts";

/** What a {@link StartupTaint} works with. */
export interface StartupTaintOptions {
  readonly key: () => string | undefined;
  readonly readiness: () => readonly string[];
  /** Removes the taints with a key from this node's Node. @throws Error when that cannot be done */
  readonly remove: (key: string) => Promise<boolean>;
  readonly logger: Logger;
}

/**
 * Removes the start-up taint from this node once plexusd is ready. Whatever creates nodes adds it.
 * plexusd never adds it again: a new Node also gets a new plexusd pod.
 */
export class StartupTaint {
  readonly #options: StartupTaintOptions;
  #done: string | undefined;

  constructor(options: StartupTaintOptions) {
    this.#options = options;
  }

  /** Call this regularly. @throws Error when the taint cannot be removed */
  async removeWhenServed(): Promise<void> {
    const { readiness, remove, logger } = this.#options;
    const key = this.#options.key();
    if (key === undefined || key === this.#done || readiness().length > 0) return;
    const wasThere = await remove(key);
    this.#done = key;
    if (wasThere) logger.info({ taint: key }, "start-up taint removed: the node is served");
  }
}
