/** Limits concurrency, first come first served. */
export class Slots {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(count: number) {
    this.#free = count;
  }

  /** Waits for a slot; dispose the result to release it. Rejects with the signal's reason. */
  acquire(signal?: AbortSignal): Promise<Disposable> {
    return new Promise((resolve, reject) => {
      const grant = (): void => {
        signal?.removeEventListener("abort", giveUp);
        resolve(this.#slot());
      };
      const giveUp = (): void => {
        this.#waiting.delete(grant);
        reject(signal?.reason);
      };
      if (signal?.aborted === true) return giveUp();
      signal?.addEventListener("abort", giveUp, { once: true });
      this.#waiting.add(grant);
      this.#next();
    });
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  #slot(): Disposable {
    this.#free--;
    const slot = new DisposableStack();
    slot.defer(() => {
      this.#free++;
      this.#next();
    });
    return slot;
  }

  #next(): void {
    const [grant] = this.#waiting;
    if (grant === undefined || this.#free === 0) return;
    this.#waiting.delete(grant);
    grant();
  }
}
