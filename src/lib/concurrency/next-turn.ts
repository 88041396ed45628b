import { setImmediate } from "node:timers/promises";

/** Resolves after the I/O that is ready: await it before work that requests need not wait for. */
export function nextTurn(): Promise<void> {
  return setImmediate();
}
