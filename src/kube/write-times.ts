import type { StatusFailure } from "#engine/ports/cluster.ts";
import { Backoff, type BackoffOptions } from "#lib/concurrency/backoff.ts";
import type { ApiError } from "./api/api-error.ts";
import { type StatusWriteResult, statusWriteResults } from "./metric-labels.ts";

/** How long a text is not written again after each result. @default {@link defaultDelays} */
export type WriteDelays = Readonly<Record<StatusWriteResult, BackoffOptions>>;

const defaultDelays: WriteDelays = {
  // Another writer changes the status: two that insist must not keep the API server busy.
  written: { initialMs: 1000, maxMs: 300_000 },
  retried: { initialMs: 500, maxMs: 60_000 },
  // The policy or the role that rejects it may be corrected. Of a thousand nodes, all pods may be.
  rejected: { initialMs: 120_000, maxMs: 600_000 },
};

/** After so long without a write, the next one is the first again. */
const calmMs = 600_000;

/** When the status of one pod may be written again. */
export class WriteTimes {
  readonly #backoffs: Readonly<Record<StatusWriteResult, Backoff>>;
  #text: string | undefined;
  #result: StatusWriteResult = "written";
  /** Until when the text is not sent, and until when the API server asks for nothing at all. */
  #until = 0;
  #askedUntil = 0;
  /** Why the last write failed. */
  failure: StatusFailure | undefined;

  constructor(delays: Partial<WriteDelays> = {}) {
    const all = { ...defaultDelays, ...delays };
    const backoffs = statusWriteResults.map((result) => [result, new Backoff(all[result])]);
    this.#backoffs = Object.fromEntries(backoffs);
  }

  /** Milliseconds until the text may be written. */
  waitMs(text: string): number {
    const until = text === this.#text ? Math.max(this.#until, this.#askedUntil) : this.#askedUntil;
    return Math.max(0, Math.ceil(until - performance.now()));
  }

  /** Notes how a write of the text has ended. */
  note(text: string, error?: ApiError): StatusWriteResult {
    const result = error === undefined ? "written" : resultOf(error);
    const now = performance.now();
    const isRepeated = text === this.#text && result === this.#result && now < this.#until + calmMs;
    if (!isRepeated) for (const each of Object.values(this.#backoffs)) each.reset();
    this.#text = text;
    this.#result = result;
    this.#until = now + this.#backoffs[result].next();
    this.#askedUntil = now + (error?.retryAfterMs ?? 0);
    this.failure = error && { message: error.message, isRejected: result === "rejected" };
    return result;
  }

  /**
   * An ADD waits for its text: that another component has replaced the same text of an earlier
   * sandbox is no reason to hold the pod up.
   */
  renew(): void {
    if (this.failure === undefined) this.#until = 0;
  }

  /** Other writes succeed again, or the process ends: a retry need not wait any longer. */
  hasten(): void {
    if (this.failure === undefined || this.#result !== "retried") return;
    this.#until = 0;
    this.#backoffs.retried.reset();
  }
}

/** A pod that is gone, or replaced, the watch takes away: 404 and 409 need not be understood. */
function resultOf({ status }: ApiError): StatusWriteResult {
  const isRejected = status >= 400 && status < 500 && ![401, 404, 408, 409, 429].includes(status);
  return isRejected ? "rejected" : "retried";
}
