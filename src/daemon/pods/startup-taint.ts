import type { Logger } from "#engine/ports/logger.ts";

/**
 * Removes the start-up taint from this node once plexusd is ready. Call the function regularly.
 * Whatever creates nodes adds it. plexusd never adds it again: a new Node also gets a new pod.
 * The calls throw an Error when the taint cannot be removed.
 */
export function startupTaint(options: {
  readonly key: () => string | undefined;
  readonly readiness: () => readonly string[];
  /** Removes the taints with a key from this node's Node. @throws Error when that cannot be done */
  readonly remove: (key: string) => Promise<boolean>;
  readonly logger: Logger;
}): () => Promise<void> {
  let done: string | undefined;
  return async () => {
    const key = options.key();
    if (key === undefined || key === done || options.readiness().length > 0) return;
    const wasThere = await options.remove(key);
    done = key;
    if (wasThere) options.logger.info({ taint: key }, "start-up taint removed: the node is served");
  };
}
