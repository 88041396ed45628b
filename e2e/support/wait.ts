import { setTimeout as sleep } from "node:timers/promises";

const defaultTimeoutMs = 60_000;

/** How long and how often {@link waitUntil} and {@link poll} ask. */
export interface WaitOptions {
  /** Longer than anything takes that does not hang, on the busiest machine. @default 60000 */
  readonly timeoutMs?: number;
  /** @default 20 */
  readonly intervalMs?: number;
}

/** Returns something other than undefined and false once the awaited state is there. */
export type Probe<T> = () => Promise<T | undefined | false> | T | undefined | false;

/**
 * Asks `probe` until it returns a value other than undefined and false, and returns that value. A probe that
 * throws has not succeeded yet.
 * @param state the awaited state, as it stands in the error: "the API server is ready"
 * @throws Error when the time is up, with the last probe's error as its cause
 */
export async function waitUntil<T>(
  state: string,
  probe: Probe<T>,
  options: WaitOptions = {},
): Promise<T> {
  let cause: unknown;
  const value = await poll(async () => {
    cause = undefined;
    try {
      return await probe();
    } catch (error) {
      cause = error;
      return undefined;
    }
  }, options);
  if (value !== undefined) return value;
  const last = cause instanceof Error ? `: ${cause.message}` : "";
  const { timeoutMs = defaultTimeoutMs } = options;
  throw new Error(`waited ${timeoutMs} ms in vain until ${state}${last}`, { cause });
}

/** The same, but returns undefined when the time is up or `ended` says that no value will come. */
export async function poll<T>(
  probe: Probe<T>,
  {
    timeoutMs = defaultTimeoutMs,
    intervalMs = 20,
    ended,
  }: WaitOptions & { readonly ended?: () => boolean } = {},
): Promise<T | undefined> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const value = await probe();
    if (value !== undefined && value !== false) return value;
    if (performance.now() >= deadline || ended?.() === true) return undefined;
    await sleep(intervalMs);
  }
}
