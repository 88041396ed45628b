// SPDX-License-Identifier: Apache-2.0

import { setTimeout as sleep } from "node:timers/promises";

/** What waitFor() waits for, and how long. */
export interface WaitOptions {
  /** Names the awaited state in the error: "the API server is ready". */
  readonly what: string;
  /** @default 60000 */
  readonly timeoutMs?: number;
  /** @default 50 */
  readonly intervalMs?: number;
}

/**
 * Asks `probe` until it gives a value other than undefined and false, and returns that value. A probe that
 * throws has not succeeded yet. Throws, with the last probe's error as its cause, when the time is up.
 */
export async function waitFor<T>(
  probe: () => Promise<T | undefined | false> | T | undefined | false,
  { what, timeoutMs = 60_000, intervalMs = 50 }: WaitOptions,
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    let cause: unknown;
    try {
      const value = await probe();
      if (value !== undefined && value !== false) {
        return value;
      }
    } catch (error) {
      cause = error;
    }
    if (Date.now() >= deadline) {
      const last = cause instanceof Error ? `: ${cause.message}` : "";
      throw new Error(`waited ${timeoutMs} ms in vain until ${what}${last}`, { cause });
    }
    await sleep(intervalMs);
  }
}
