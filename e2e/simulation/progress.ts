/** Says every minute how many histories have ended. */
export class Progress {
  readonly #say: (line: string) => void;
  readonly #counts: number[] = [];
  readonly #startedAt = performance.now();
  #minutes = 0;

  constructor(say: (line: string) => void) {
    this.#say = say;
  }

  /** A worker has ended so many histories so far. */
  note(worker: number, count: number): void {
    this.#counts[worker] = count;
    const seconds = (performance.now() - this.#startedAt) / 1000;
    if (Math.floor(seconds / 60) === this.#minutes) return;
    this.#minutes = Math.floor(seconds / 60);
    const sum = this.#counts.reduce((total, each) => total + each, 0);
    this.#say(
      `${sum} histories after ${this.#minutes} minutes, ${Math.round(sum / seconds)} a second`,
    );
  }
}
