/** A sleep that changes end early; a little after them, as agents write several files at once. */
export class WakeableSleep {
  readonly #debounceMs: number;
  #wake: () => void = () => undefined;
  #woken = false;
  #closed = false;

  constructor(debounceMs: number) {
    this.#debounceMs = debounceMs;
  }

  /** Ends the sleep, or the next one when there is none now. */
  wake(): void {
    this.#woken = true;
    this.#wake();
  }

  /** Ends the sleep at once, and makes every further one as short as can be. */
  close(): void {
    this.#closed = true;
    this.wake();
  }

  /** Until the time is over, or the debounce time after {@link wake}. */
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
