/** Mutual exclusion by key, first come first served. Different keys never wait for each other. */
export class KeyedMutex {
  readonly #tails = new Map<string, Promise<void>>();

  /** Waits for the key's turn; release by disposing of what it resolves to. */
  async acquire(key: string): Promise<Disposable> {
    const before = this.#tails.get(key);
    const { promise, resolve } = Promise.withResolvers<void>();
    const tail = before === undefined ? promise : before.then(() => promise);
    this.#tails.set(key, tail);
    await before;
    return {
      [Symbol.dispose]: () => {
        resolve();
        if (this.#tails.get(key) === tail) this.#tails.delete(key);
      },
    };
  }

  /** Keys that are held or waited for. */
  get size(): number {
    return this.#tails.size;
  }
}
