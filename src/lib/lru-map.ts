/** A map with a maximum size that drops the least recently used entry. */
export class LruMap<V> {
  readonly #max: number;
  /** Least recently used first. */
  readonly #entries = new Map<string, V>();

  /** @param max at least 1 */
  constructor(max: number) {
    this.#max = max;
  }

  /** The value of a key, which counts as a use; created by `make` if absent. */
  getOrMake(key: string, make: () => V): V {
    const value = this.#entries.has(key) ? (this.#entries.get(key) as V) : make();
    this.set(key, value);
    return value;
  }

  /** The value of a key, without counting as a use. */
  peek(key: string): V | undefined {
    return this.#entries.get(key);
  }

  /** Sets the value of a key, which counts as a use. */
  set(key: string, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    const [oldest = key] = this.#entries.keys();
    if (this.#entries.size > this.#max) this.#entries.delete(oldest);
  }

  /** All entries, least recently used first, without counting as a use. */
  entries(): Iterable<readonly [string, V]> {
    return this.#entries.entries();
  }

  delete(key: string): void {
    this.#entries.delete(key);
  }
}
