import { setImmediate } from "node:timers/promises";

/**
 * Resolves after the I/O that is ready. Await it before work that nothing waits for yet, so that requests which
 * were just started are sent first.
 */
export function nextTurn(): Promise<void> {
  return setImmediate();
}
