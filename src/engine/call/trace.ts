/** The phases of one call with their durations, in the order in which they ended. */
export class Trace {
  readonly #clock: () => number;
  readonly #phases: { name: string; milliseconds: number }[] = [];

  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** Runs a step of the call as a phase; a step that fails is recorded, too. */
  async phase<T>(name: string, step: () => Promise<T> | T): Promise<T> {
    const started = this.#clock();
    try {
      return await step();
    } finally {
      this.add(name, this.#clock() - started);
    }
  }

  /** Records a phase that was measured elsewhere. */
  add(name: string, milliseconds: number): void {
    this.#phases.push({ name, milliseconds });
  }

  /** One line per phase, for `PLEXUS_TRACE=1`. */
  format(): string {
    const width = Math.max(0, ...this.#phases.map((phase) => phase.name.length));
    const lines = this.#phases.map(({ name, milliseconds }) => {
      const duration = milliseconds.toFixed(3).padStart(9);
      return `plexus trace: ${name.padEnd(width)} ${duration} ms\n`;
    });
    return lines.join("");
  }
}
