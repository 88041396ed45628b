import type { Logger } from "#engine/ports.ts";

/** What a {@link StartupTaint} works with. */
export interface StartupTaintOptions {
  /** The configured key; undefined = there is no such taint. */
  readonly key: () => string | undefined;
  /** Why the node is not served yet, a sentence each; empty = it is. */
  readonly readiness: () => readonly string[];
  /** Removes the taints with a key from this node's Node. @throws Error when that cannot be done */
  readonly remove: (key: string) => Promise<boolean>;
  readonly logger: Logger;
}

/**
 * Takes a start-up taint off this node once it is served. It is put on where nodes are made, and
 * plexusd never puts it back: when the Node is made anew, so is plexusd's pod.
 */
export class StartupTaint {
  readonly #options: StartupTaintOptions;
  #done: string | undefined;

  constructor(options: StartupTaintOptions) {
    this.#options = options;
  }

  /** To be called again and again. @throws Error when the taint cannot be removed */
  async removeWhenServed(): Promise<void> {
    const { readiness, remove, logger } = this.#options;
    const key = this.#options.key();
    if (key === undefined || key === this.#done || readiness().length > 0) return;
    const wasThere = await remove(key);
    this.#done = key;
    if (wasThere) logger.info({ taint: key }, "start-up taint removed: the node is served");
  }
}
