import { world } from "../world/world.ts";

/*
 * In place of node:timers/promises.
 */

interface SleepOptions {
  readonly signal?: AbortSignal;
  readonly ref?: boolean;
}

/** @throws AbortError when the signal fires first */
export function setTimeout<T>(ms = 1, value?: T, { signal }: SleepOptions = {}): Promise<T> {
  const { schedule } = world();
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) return reject(abortError(signal));
    const onAbort = (): void => {
      schedule.cancel(timer);
      if (signal !== undefined) reject(abortError(signal));
    };
    const timer = schedule.at(Math.max(1, ms) * 1000, () => {
      signal?.removeEventListener("abort", onAbort);
      resolve(value as T);
    });
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

export function setImmediate<T>(value?: T): Promise<T> {
  return new Promise((resolve) => {
    world().schedule.at(1, () => resolve(value as T));
  });
}

function abortError({ reason }: AbortSignal): Error {
  return Object.assign(new Error("The operation was aborted", { cause: reason }), {
    name: "AbortError",
    code: "ABORT_ERR",
  });
}
