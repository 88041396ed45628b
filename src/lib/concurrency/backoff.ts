/** Delays grow from `initialMs` to `maxMs`, each by `factor`. */
export interface BackoffOptions {
  readonly initialMs: number;
  readonly maxMs: number;
  /** @default 2 */
  readonly factor?: number;
  /** The random part of each delay, so that nodes do not retry in step. @default 0.5 */
  readonly jitter?: number;
  /** A number in [0, 1). @default Math.random */
  readonly random?: () => number;
}

/** Delays between attempts, growing until {@link Backoff.reset}. */
export class Backoff {
  readonly #options: Required<BackoffOptions>;
  #attempt = 0;

  constructor(options: BackoffOptions) {
    this.#options = { factor: 2, jitter: 0.5, random: Math.random, ...options };
  }

  /** Milliseconds to wait before the next attempt. */
  next(): number {
    const { initialMs, maxMs, factor, jitter, random } = this.#options;
    const full = Math.min(maxMs, initialMs * factor ** this.#attempt);
    this.#attempt += 1;
    return Math.round(full * (1 - jitter + jitter * random()));
  }

  get attempts(): number {
    return this.#attempt;
  }

  reset(): void {
    this.#attempt = 0;
  }
}
