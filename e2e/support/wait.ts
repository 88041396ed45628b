// SPDX-License-Identifier: Apache-2.0

import { setTimeout as sleep } from "node:timers/promises";

/** How long and how often {@link waitUntil} asks. */
export interface WaitOptions {
  /** Longer than anything takes that does not hang, on the busiest machine. @default 60000 */
  readonly timeoutMs?: number;
  /** @default 20 */
  readonly intervalMs?: number;
}

/** Answers with something other than undefined and false once the awaited state is there. */
export type Probe<T> = () => Promise<T | undefined | false> | T | undefined | false;

/**
 * Asks `probe` until it gives a value other than undefined and false, and returns that value. A probe that
 * throws has not succeeded yet.
 * @param state the awaited state, as it stands in the error: "the API server is ready"
 * @throws Error when the time is up, with the last probe's error as its cause
 */
export async function waitUntil<T>(
  state: string,
  probe: Probe<T>,
  { timeoutMs = 60_000, intervalMs = 20 }: WaitOptions = {},
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    let cause: unknown;
    try {
      const value = await probe();
      if (value !== undefined && value !== false) return value;
    } catch (error) {
      cause = error;
    }
    if (Date.now() >= deadline) {
      const last = cause instanceof Error ? `: ${cause.message}` : "";
      throw new Error(`waited ${timeoutMs} ms in vain until ${state}${last}`, { cause });
    }
    await sleep(intervalMs);
  }
}
