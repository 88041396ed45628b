import { Slots } from "#lib/concurrency/slots.ts";
import { asApiError } from "./api/api-error.ts";

/** Twice as long as a request may wait in an API server: what is given up there is paid twice. */
export const writeTimeoutMs = 30_000;
/** One write of a namespace at a time, and one of another, or an event. */
const fewest = 2;
/** With those that are awaited, half of the connections to the API server: reads have the others. */
const most = 8;
/** For writes that ADDs wait for: of one namespace, half of them. */
const awaitedAtOnce = 8;
/** After such an answer the API server has time for more. An idle one answers in some 10 ms. */
const fastMs = 500;
/** It refuses what waits for 15 s in its queue; an answer after a third of that says so before. */
const slowMs = 5000;
/** After a pause other nodes may begin at the same time, as when a deployment is changed. */
const idleMs = 10_000;

/**
 * How many writes are on their way to the API server at a time: few at first and after a pause, more
 * while answers are fast, half as many when the server is slow, overloaded or away. What thousands of nodes
 * send too early is answered too late, and sent again. What an ADD waits for has separate slots: a
 * pod that waits in the API server need not wait here, too, and the runtime starts few at a time. A
 * namespace gets half of what is free, as an admission webhook may let all of its writes hang.
 */
export class WritePace {
  readonly #slots = new Slots(fewest);
  readonly #awaited = new Slots(awaitedAtOnce);
  #limit = fewest;
  /** When the last write ended, and when the limit was halved, by performance.now(). */
  #endedAt = 0;
  #halvedAt = 0;

  /**
   * Sends a write when its turn has come.
   * @param send returns false if there was nothing to send
   * @throws the signal's reason, and what `send` throws
   */
  async run(
    namespace: string,
    send: () => Promise<unknown>,
    { signal, isAwaited = false }: { readonly signal: AbortSignal; readonly isAwaited?: boolean },
  ): Promise<void> {
    if (performance.now() - this.#endedAt > idleMs) this.#setLimit(fewest);
    const claims = [{ key: namespace, share: 1 }];
    using _slot = await (isAwaited ? this.#awaited : this.#slots).acquire(signal, { claims });
    const startedAt = performance.now();
    try {
      if ((await send()) === false) return;
      const tookMs = performance.now() - startedAt;
      if (tookMs < fastMs) this.#setLimit(this.#limit + 1 / this.#limit);
      else if (tookMs > slowMs) this.#halve(startedAt);
    } catch (error) {
      if (asApiError(error).transient) this.#halve(startedAt);
      throw error;
    } finally {
      this.#endedAt = performance.now();
    }
  }

  /** Writes that were sent before the last halving say nothing new. */
  #halve(sentAt: number): void {
    if (sentAt < this.#halvedAt) return;
    this.#halvedAt = performance.now();
    this.#setLimit(this.#limit / 2);
  }

  #setLimit(limit: number): void {
    this.#limit = Math.min(most, Math.max(fewest, limit));
    this.#slots.resize(Math.floor(this.#limit));
  }
}
