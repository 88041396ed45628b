import type { Logger } from "#engine/ports/logger.ts";

/** How often to look again: a Node that was deleted and registered anew has the taint again. */
const againMs = 60_000;

/**
 * Removes the start-up taint from this node once plexusd is ready. Call the function regularly.
 * Whatever creates nodes adds it. plexusd never adds it again.
 * The calls throw an Error when the taint cannot be removed.
 */
export function startupTaint(options: {
  readonly key: () => string | undefined;
  readonly readiness: () => readonly string[];
  /** Removes the taints with a key from this node's Node. @throws Error when that cannot be done */
  readonly remove: (key: string) => Promise<boolean>;
  readonly logger: Logger;
}): () => Promise<void> {
  let nextMs = 0;
  return async () => {
    const key = options.key();
    if (key === undefined || performance.now() < nextMs || options.readiness().length > 0) return;
    const wasThere = await options.remove(key);
    nextMs = performance.now() + againMs;
    if (wasThere) options.logger.info({ taint: key }, "start-up taint removed: the node is served");
  };
}
