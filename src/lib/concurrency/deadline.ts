import { setTimeout as sleep } from "node:timers/promises";
import { omitUndefined } from "#lib/omit-undefined.ts";

/**
 * A signal for one piece of work, to be disposed of when the work ends: it fires with a
 * `TimeoutError` after `ms` milliseconds, or earlier with the reason of `parent`. Unlike `AbortSignal.any`
 * and `AbortSignal.timeout` it leaves no timer and no listener behind.
 */
export function deadline(ms: number, parent?: AbortSignal) {
  const controller = new AbortController();
  const onAbort = (): void => controller.abort(parent?.reason);
  const timer = setTimeout(() => {
    controller.abort(new DOMException(`no answer within ${Math.round(ms)} ms`, "TimeoutError"));
  }, ms);
  if (parent?.aborted === true) onAbort();
  else parent?.addEventListener("abort", onAbort, { once: true });
  return {
    signal: controller.signal,
    [Symbol.dispose]: () => {
      clearTimeout(timer);
      parent?.removeEventListener("abort", onAbort);
    },
  };
}

/** Waits `ms` milliseconds, or until the signal fires; resolves in both cases. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  await sleep(ms, undefined, omitUndefined({ signal })).catch(() => undefined);
}

/** Settles as the promise does, or rejects with the signal's reason when that fires first. */
export function untilAborted<T>(promise: Promise<T>, signal?: AbortSignal): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort, { once: true });
    // Always attached, because an unhandled rejection would end the process.
    void promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
