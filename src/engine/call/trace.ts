/** A phase, with times in milliseconds. */
interface Phase {
  readonly name: string;
  readonly startedAt: number;
  readonly duration: number;
}

/** The phases of one call, in the order in which they ended. */
export class Trace {
  readonly #clock: () => number;
  readonly #phases: Phase[] = [];

  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** Runs a step of the call as a phase; a step that fails is recorded, too. */
  async phase<T>(name: string, step: () => Promise<T> | T): Promise<T> {
    const startedAt = this.#clock();
    try {
      return await step();
    } finally {
      this.#phases.push({ name, startedAt, duration: this.#clock() - startedAt });
    }
  }

  /** Records a phase that was measured elsewhere and ends now. */
  add(name: string, duration: number): void {
    this.#phases.push({ name, startedAt: this.#clock() - duration, duration });
  }

  /**
   * One line per phase, for `PLEXUS_TRACE=1`: its start, from the start of the first phase, and its duration.
   * @param startedUs when the shim started, in microseconds of CLOCK_MONOTONIC
   */
  format(startedUs: number): string {
    const first = Math.min(...this.#phases.map((phase) => phase.startedAt));
    const width = Math.max(0, ...this.#phases.map((phase) => phase.name.length));
    const lines = this.#phases.map(({ name, startedAt, duration }) => {
      const [at, took] = [startedAt - first, duration].map((ms) => ms.toFixed(3).padStart(9));
      return `plexus trace: ${name.padEnd(width)} at ${at} ms for ${took} ms\n`;
    });
    if (startedUs > 0) lines.unshift(`plexus trace: started ${(startedUs / 1e6).toFixed(6)}\n`);
    return lines.join("");
  }
}
