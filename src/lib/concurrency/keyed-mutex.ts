/** Mutual exclusion by key, first come first served. Different keys never wait for each other. */
export class KeyedMutex {
  readonly #tails = new Map<string, Promise<void>>();

  /** Waits for the key's turn; release by disposing of what it resolves to. */
  async acquire(key: string): Promise<Disposable> {
    const before = this.#tails.get(key);
    const held = this.#enqueue(key);
    await before;
    return held;
  }

  /** Takes the key if nobody holds or waits for it; undefined otherwise. */
  tryAcquire(key: string): Disposable | undefined {
    return this.#tails.has(key) ? undefined : this.#enqueue(key);
  }

  /** Whether somebody holds the key or waits for it. */
  has(key: string): boolean {
    return this.#tails.has(key);
  }

  /** Keys that are held or waited for. */
  get size(): number {
    return this.#tails.size;
  }

  /** Takes the place behind everyone who holds or waits for the key. */
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
