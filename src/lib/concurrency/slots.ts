/** Limits concurrency, first come first served: who waits for several slots holds later ones up. */
export class Slots {
  #free: number;
  readonly #waiting = new Set<{ readonly count: number; readonly grant: () => void }>();

  constructor(count: number) {
    this.#free = count;
  }

  /** Waits for slots; dispose the result to release them. Rejects with the signal's reason. */
  acquire(signal?: AbortSignal, count = 1): Promise<Disposable> {
    return new Promise((resolve, reject) => {
      const grant = (): void => {
        signal?.removeEventListener("abort", giveUp);
        resolve(this.#take(count));
      };
      const waiter = { count, grant };
      const giveUp = (): void => {
        this.#waiting.delete(waiter);
        reject(signal?.reason);
        this.#grantAll();
      };
      if (signal?.aborted === true) return giveUp();
      signal?.addEventListener("abort", giveUp, { once: true });
      this.#waiting.add(waiter);
      this.#grantAll();
    });
  }

  /** Takes a slot if that is possible at once; undefined otherwise. */
  tryAcquire(): Disposable | undefined {
    return this.#free > 0 && this.#waiting.size === 0 ? this.#take(1) : undefined;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  #take(count: number): Disposable {
    this.#free -= count;
    const slots = new DisposableStack();
    slots.defer(() => {
      this.#free += count;
      this.#grantAll();
    });
    return slots;
  }

  #grantAll(): void {
    for (const waiter of this.#waiting) {
      if (waiter.count > this.#free) return;
      this.#waiting.delete(waiter);
      waiter.grant();
    }
  }
}
