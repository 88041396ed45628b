import { Slots } from "./slots.ts";

/** Many readers or one writer, first come first served: a waiting writer holds new readers. */
export class SharedLock {
  /** A reader has one, a writer all. */
  readonly #slots = new Slots(Number.MAX_SAFE_INTEGER);

  /** Held together with other shared holders. */
  shared(): Promise<Disposable> {
    return this.#slots.acquire();
  }

  /** Takes the lock with other shared holders if possible at once; undefined otherwise. */
  tryShared(): Disposable | undefined {
    return this.#slots.tryAcquire();
  }

  /** Held alone. @throws the signal's reason when that fires first */
  exclusive(signal?: AbortSignal): Promise<Disposable> {
    return this.#slots.acquire(signal, { count: Number.MAX_SAFE_INTEGER });
  }
}
