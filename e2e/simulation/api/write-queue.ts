import { ground } from "../world/ground.ts";

/** How a busy API server processes writes: a few at a time, and few may wait. */
export interface Busy {
  readonly atOnce: number;
  readonly room: number;
  /** What each takes, also for a client that does not wait any more. */
  readonly costMs: number;
}

/** Of all statuses together, so many may be written a second time. */
const repeatedMax = 2;

/** The writes that a busy API server works on, and those that wait. */
export class WriteQueue {
  readonly #busy: Busy;
  readonly #waiting: (() => void)[] = [];
  readonly #statuses = new Set<string>();
  #working = 0;
  #writes = 0;

  constructor(busy: Busy) {
    this.#busy = busy;
  }

  /** Runs `work` when its turn has come and its time is over. @returns whether there is room */
  take(work: () => void): boolean {
    const { atOnce, room } = this.#busy;
    if (this.#working < atOnce) this.#begin(work);
    else if (this.#waiting.length < room) this.#waiting.push(work);
    else return false;
    return true;
  }

  /**
   * A status arrives, whether there is room or not.
   * @param content the same when it is repeated
   * @returns how many were written, if those are too many
   */
  noteStatus(content: string): string | undefined {
    this.#writes += 1;
    const { size } = this.#statuses.add(content);
    const isSparing = this.#writes <= size + repeatedMax;
    return isSparing ? undefined : `${this.#writes} writes of ${size} statuses`;
  }

  #begin(work: () => void): void {
    const { schedule } = ground();
    this.#working += 1;
    const end = (): void => {
      this.#working -= 1;
      work();
      const next = this.#waiting.shift();
      if (next !== undefined) this.#begin(next);
    };
    schedule.at(this.#busy.costMs * 1000, end, schedule.outside);
  }
}
