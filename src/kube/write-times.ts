import type { StatusFailure } from "#engine/ports/cluster.ts";
import { Backoff, type BackoffOptions } from "#lib/concurrency/backoff.ts";
import type { ApiError } from "./api/api-error.ts";
import { type StatusWriteResult, statusWriteResults } from "./metric-labels.ts";

/** How long a text is not written again after each result. @default {@link defaultDelays} */
export type WriteDelays = Readonly<Record<StatusWriteResult, BackoffOptions>>;

export const defaultDelays: WriteDelays = {
  // Another writer changes the status: two that insist must not keep the API server busy.
  written: { initialMs: 1000, maxMs: 300_000 },
  retried: { initialMs: 500, maxMs: 60_000 },
  // The policy or the role that rejects it may be corrected.
  rejected: { initialMs: 120_000, maxMs: 3_600_000 },
};

/** Between the last attempts of a process that ends. */
const lastAttempts: BackoffOptions = { initialMs: 200, maxMs: 1000 };

/** After so long without a write, the next one is the first again. */
const calmMs = 600_000;

/** When the status of one pod may be written again. */
export class WriteTimes {
  readonly #backoffs: Readonly<Record<StatusWriteResult, Backoff>>;
  readonly #last = new Backoff(lastAttempts);
  #text: string | undefined;
  #result: StatusWriteResult = "written";
  /** Until when the text is not sent, and until when the API server asks for nothing at all. */
  #until = 0;
  #askedUntil = 0;
  /** Why the last write failed. */
  failure: StatusFailure | undefined;

  constructor(delays: WriteDelays) {
    const backoffs = statusWriteResults.map((result) => [result, new Backoff(delays[result])]);
    this.#backoffs = Object.fromEntries(backoffs);
  }

  /** Whether a write that failed may succeed at any time. */
  get isRetried(): boolean {
    return this.failure !== undefined && this.#result === "retried";
  }

  /** Milliseconds until the text may be written. */
  waitMs(text: string): number {
    const until = text === this.#text ? Math.max(this.#until, this.#askedUntil) : this.#askedUntil;
    return Math.max(0, Math.ceil(until - performance.now()));
  }

  /** Notes how a write of the text has ended. */
  note(text: string, result: StatusWriteResult, error?: ApiError): void {
    const now = performance.now();
    const isRepeated = text === this.#text && result === this.#result && now < this.#until + calmMs;
    if (!isRepeated) for (const each of Object.values(this.#backoffs)) each.reset();
    this.#text = text;
    this.#result = result;
    this.#until = now + this.#backoffs[result].next();
    this.#askedUntil = now + (error?.retryAfterMs ?? 0);
    this.failure = error && { message: error.message, isRejected: result === "rejected" };
  }

  /** Other writes succeed again: a retry need not wait any longer. */
  hasten(): void {
    if (this.isRetried) this.#until = 0;
  }

  /** The process ends: a retry is soon. */
  hurry(): void {
    if (this.isRetried) this.#until = performance.now() + this.#last.next();
  }
}
