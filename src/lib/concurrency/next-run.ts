/**
 * Runs work for callers that each need a run that starts after their call. Callers during a run
 * share the next one, so any number of them causes at most two runs.
 */
export class NextRun<T> {
  readonly #work: () => Promise<T>;
  #running: Promise<unknown> | undefined;
  #next: Promise<T> | undefined;

  constructor(work: () => Promise<T>) {
    this.#work = work;
  }

  /** The outcome of the next run to begin. */
  run(): Promise<T> {
    this.#next ??= this.#begin();
    return this.#next;
  }

  async #begin(): Promise<T> {
    await this.#running;
    this.#next = undefined;
    const run = this.#work();
    const ended = run.then(
      () => undefined,
      () => undefined,
    );
    this.#running = ended;
    return run;
  }
}
