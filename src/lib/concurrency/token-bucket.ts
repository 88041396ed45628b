export interface TokenBucketOptions {
  /** The capacity: the largest burst. */
  readonly burst: number;
  readonly tokensPerSecond: number;
}

/** A rate limit with bursts: each action takes a token, and tokens are refilled over time. */
export class TokenBucket {
  readonly #options: TokenBucketOptions;
  #tokens: number;
  #filledAt = performance.now();

  constructor(options: TokenBucketOptions) {
    this.#options = options;
    this.#tokens = options.burst;
  }

  tryTake(): boolean {
    this.#fill();
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }

  /** Takes a token for something that has happened, also in advance. */
  take(): void {
    this.#fill();
    this.#tokens -= 1;
  }

  /** Milliseconds until there is a token. */
  get waitMs(): number {
    this.#fill();
    const missing = Math.max(0, 1 - this.#tokens);
    return Math.ceil((missing / this.#options.tokensPerSecond) * 1000);
  }

  #fill(): void {
    const now = performance.now();
    const gained = ((now - this.#filledAt) / 1000) * this.#options.tokensPerSecond;
    this.#tokens = Math.min(this.#options.burst, this.#tokens + gained);
    this.#filledAt = now;
  }
}
