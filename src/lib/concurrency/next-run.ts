/**
 * Does work for callers that each need a run that began after they asked: those that come while one
 * is under way share the next one. So any number of callers cause two runs at the most.
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
