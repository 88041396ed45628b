import { ground } from "../world/ground.ts";
import type { Process, Schedule } from "../world/schedule.ts";
import type { WatchReceiver } from "./watch-stream.ts";

/** The client's end of a watch: the lines that have arrived and were not read. */
export class LineQueue implements WatchReceiver {
  readonly process: Process = ground().schedule.current;
  readonly #idleMs: number;
  readonly #lines: string[] = [];
  #end: { readonly error?: Error | undefined } | undefined;
  #wake: (() => void) | undefined;
  #lastUs = ground().schedule.nowUs;
  #timer: ReturnType<Schedule["at"]>;

  /** Ends with an error when nothing arrives for so many milliseconds. */
  constructor(idleMs: number) {
    this.#idleMs = idleMs;
    this.#timer = this.#watchIdleness();
  }

  line(text: string): void {
    this.#lastUs = ground().schedule.nowUs;
    this.#lines.push(text);
    this.#wake?.();
  }

  end(error?: Error): void {
    this.#end ??= { error };
    this.#wake?.();
  }

  /** The next line; undefined at the end. @throws Error when the connection breaks */
  async next(): Promise<string | undefined> {
    while (this.#lines.length === 0 && this.#end === undefined) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    if (this.#lines.length === 0 && this.#end?.error !== undefined) throw this.#end.error;
    return this.#lines.shift();
  }

  close(): void {
    ground().schedule.cancel(this.#timer);
  }

  /** One timer for all lines: it is set again for what is left of the time. */
  #watchIdleness(): ReturnType<Schedule["at"]> {
    const { schedule } = ground();
    const leftUs = this.#lastUs + this.#idleMs * 1000 - schedule.nowUs;
    return schedule.at(leftUs, () => {
      const isIdle = schedule.nowUs >= this.#lastUs + this.#idleMs * 1000;
      if (isIdle) this.end(new Error(`nothing received for ${this.#idleMs} ms`));
      else this.#timer = this.#watchIdleness();
    });
  }
}
