/** A span of time that several steps share, so that one that hangs leaves the others theirs. */
export class TimeBudget {
  readonly #clock: () => number;
  readonly #endsAt: number;

  /** Starts now. `clock` is monotonic, in milliseconds. */
  constructor(clock: () => number, totalMs: number) {
    this.#clock = clock;
    this.#endsAt = clock() + totalMs;
  }

  /** What is left of it; 0 when it is used up. */
  get remainingMs(): number {
    return Math.max(0, this.#endsAt - this.#clock());
  }

  /**
   * The budget of the next of `count` steps that are still to come: an equal share of what is left, but
   * not less than `atLeastMs`.
   */
  share(count: number, { atLeastMs = 0 }: { readonly atLeastMs?: number } = {}): TimeBudget {
    return new TimeBudget(this.#clock, Math.max(atLeastMs, this.remainingMs / count));
  }
}
