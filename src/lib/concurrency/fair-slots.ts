/** Something that a slot counts for, such as a tenant. */
export interface Claim {
  readonly key: string;
  /** It gets a slot while it holds less than so many times those that are free then. */
  readonly share: number;
}

/**
 * Limits concurrency in shares: however long some hold their slots, a few stay free for others. With
 * a share of 1 the first key gets half of all slots, the next one half of the others, and so on.
 * First come first served among those that may get a slot.
 */
export class FairSlots {
  #count: number;
  /** Negative while there are fewer slots than are held. */
  #free: number;
  readonly #held = new Map<string, number>();
  readonly #waiting = new Set<{ readonly claims: readonly Claim[]; readonly grant: () => void }>();

  constructor(count: number) {
    this.#count = count;
    this.#free = count;
  }

  /** Changes how many slots there are; those that are held stay so. */
  resize(count: number): void {
    this.#free += count - this.#count;
    this.#count = count;
    this.#grantAll();
  }

  /** Waits for a slot; dispose the result to release it. Rejects with the signal's reason. */
  acquire(claims: readonly Claim[], signal: AbortSignal): Promise<Disposable> {
    return new Promise((resolve, reject) => {
      const giveUp = (): void => {
        this.#waiting.delete(waiter);
        reject(signal.reason);
      };
      const grant = (): void => {
        signal.removeEventListener("abort", giveUp);
        resolve(this.#slot(claims));
      };
      const waiter = { claims, grant };
      if (signal.aborted) return giveUp();
      signal.addEventListener("abort", giveUp, { once: true });
      this.#waiting.add(waiter);
      this.#grantAll();
    });
  }

  #slot(claims: readonly Claim[]): Disposable {
    this.#note(claims, 1);
    const slot = new DisposableStack();
    slot.defer(() => {
      this.#note(claims, -1);
      this.#grantAll();
    });
    return slot;
  }

  #note(claims: readonly Claim[], change: number): void {
    this.#free -= change;
    for (const { key } of claims) {
      const held = (this.#held.get(key) ?? 0) + change;
      if (held === 0) this.#held.delete(key);
      else this.#held.set(key, held);
    }
  }

  #grantAll(): void {
    for (const waiter of this.#waiting) {
      const mayHold = ({ key, share }: Claim): boolean =>
        (this.#held.get(key) ?? 0) < share * this.#free;
      if (!waiter.claims.every(mayHold)) continue;
      this.#waiting.delete(waiter);
      waiter.grant();
    }
  }
}
