import { vi } from "vitest";

/** Longer than anything takes that does not hang, on the busiest machine. */
const patience = { timeout: 20_000, interval: 10 };

/**
 * Repeats what a test expects until it holds, and returns its value. The limit of `vi.waitFor` is a second, which a
 * write to a busy disk can take.
 * @throws the last failure after 20 seconds
 */
export function eventually<T>(expectation: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(expectation, patience);
}
