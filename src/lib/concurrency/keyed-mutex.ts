/** Mutual exclusion by key, first come first served. Different keys never wait for each other. */
export class KeyedMutex {
  readonly #tails = new Map<string, Promise<void>>();

  /** Waits for the key; dispose the result to release it. */
  async acquire(key: string): Promise<Disposable> {
    const before = this.#tails.get(key);
    const held = this.#enqueue(key);
    await before;
    return held;
  }

  /** Takes the key if it is free and has no waiters; undefined otherwise. */
  tryAcquire(key: string): Disposable | undefined {
    return this.#tails.has(key) ? undefined : this.#enqueue(key);
  }

  /** Whether the key is held or waited for. */
  has(key: string): boolean {
    return this.#tails.has(key);
  }

  #enqueue(key: string): Disposable {
    const before = this.#tails.get(key);
    const { promise, resolve } = Promise.withResolvers<void>();
    const tail = before === undefined ? promise : before.then(() => promise);
    this.#tails.set(key, tail);
    return {
      [Symbol.dispose]: () => {
        resolve();
        if (this.#tails.get(key) === tail) this.#tails.delete(key);
      },
    };
  }
}
