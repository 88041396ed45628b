/** A sleep that changes end, shortly delayed because agents write several files at once. */
export class WakeableSleep {
  readonly #debounceMs: number;
  #wake: () => void = () => undefined;
  #woken = false;
  #closed = false;

  constructor(debounceMs: number) {
    this.#debounceMs = debounceMs;
  }

  /** Ends the current sleep, or else the next one. */
  wake(): void {
    this.#woken = true;
    this.#wake();
  }

  /** Ends the current sleep, and all later ones, at once. */
  close(): void {
    this.#closed = true;
    this.wake();
  }

  /** Sleeps until the time is over, or for the debounce time after {@link wake}. */
  async sleep(ms: number): Promise<void> {
    if (!this.#woken) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms);
        this.#wake = (): void => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    if (this.#woken && !this.#closed)
      await new Promise((resolve) => setTimeout(resolve, this.#debounceMs));
    this.#woken = this.#closed;
  }
}
