import { pause } from "./deadline.ts";

/** A sleep that changes end, shortly delayed because agents write several files at once. */
export class WakeableSleep {
  readonly #debounceMs: number;
  #woken = new AbortController();
  #closed = false;

  constructor(debounceMs: number) {
    this.#debounceMs = debounceMs;
  }

  /** Ends the current sleep, or else the next one. */
  wake(): void {
    this.#woken.abort();
  }

  /** Ends the current sleep, and all later ones, at once. */
  close(): void {
    this.#closed = true;
    this.wake();
  }

  /** Sleeps until the time is over, or for the debounce time after {@link wake}. */
  async sleep(ms: number): Promise<void> {
    await pause(ms, this.#woken.signal);
    if (this.#closed) return;
    if (this.#woken.signal.aborted) await pause(this.#debounceMs);
    if (!this.#closed) this.#woken = new AbortController();
  }
}
