/** Something that a slot counts for, such as a tenant. */
export interface Claim {
  readonly key: string;
  /** It gets a slot while it holds less than this times the free slots. */
  readonly share: number;
}

interface SlotRequest {
  /** @default 1 */
  readonly count?: number;
  /** In whose shares the slots must fit. @default none */
  readonly claims?: readonly Claim[];
}

/**
 * Limits concurrency, first come first served: a request for several slots holds later ones up.
 * Requests whose claims exceed a share let others pass: however long some hold their slots, a few
 * stay free for others. With a share of 1 the first key gets half of all slots, the next one half of the
 * others, and so on.
 */
export class Slots {
  #count: number;
  /** Negative while there are fewer slots than are held. */
  #free: number;
  readonly #held = new Map<string, number>();
  readonly #waiting = new Set<Required<SlotRequest> & { readonly grant: () => void }>();

  constructor(count: number) {
    this.#count = count;
    this.#free = count;
  }

  /** Changes how many slots there are; held ones stay held. */
  resize(count: number): void {
    this.#free += count - this.#count;
    this.#count = count;
    this.#grantAll();
  }

  /** Waits for slots; dispose the result to release them. Rejects with the signal's reason. */
  acquire(signal?: AbortSignal, { count = 1, claims = [] }: SlotRequest = {}): Promise<Disposable> {
    return new Promise((resolve, reject) => {
      const grant = (): void => {
        signal?.removeEventListener("abort", giveUp);
        resolve(this.#take(count, claims));
      };
      const waiter = { count, claims, grant };
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
    return this.#free > 0 && this.#waiting.size === 0 ? this.#take(1, []) : undefined;
  }

  #take(count: number, claims: readonly Claim[]): Disposable {
    this.#note(count, claims);
    const slots = new DisposableStack();
    slots.defer(() => {
      this.#note(-count, claims);
      this.#grantAll();
    });
    return slots;
  }

  #note(taken: number, claims: readonly Claim[]): void {
    this.#free -= taken;
    for (const { key } of claims) {
      const held = (this.#held.get(key) ?? 0) + taken;
      if (held === 0) this.#held.delete(key);
      else this.#held.set(key, held);
    }
  }

  #grantAll(): void {
    const mayHold = ({ key, share }: Claim): boolean =>
      (this.#held.get(key) ?? 0) < share * this.#free;
    for (const waiter of this.#waiting) {
      if (waiter.count > this.#free) return;
      if (!waiter.claims.every(mayHold)) continue;
      this.#waiting.delete(waiter);
      waiter.grant();
    }
  }
}
