/** A time span shared by several steps, so that one hanging step does not use it up. */
export class TimeBudget {
  readonly #clock: () => number;
  readonly #endsAt: number;

  /** Starts now. `clock` is monotonic, in milliseconds. */
  constructor(clock: () => number, totalMs: number) {
    this.#clock = clock;
    this.#endsAt = clock() + totalMs;
  }

  /** The remaining time, at least 0. */
  get remainingMs(): number {
    return Math.max(0, this.#endsAt - this.#clock());
  }

  /** The budget of the next of `count` steps: an equal share. */
  share(count: number): TimeBudget {
    return new TimeBudget(this.#clock, this.remainingMs / count);
  }
}
