import type { Logger } from "#engine/ports/logger.ts";
import { deadline, untilAborted } from "#lib/concurrency/deadline.ts";

/** The states of a process, in their order. {@link Life.stop} says what a signal does in each. */
export const lifeStates = ["starting", "serving", "draining", "stopped"] as const;

export type LifeState = (typeof lifeStates)[number];

/** A part that starts or stops for longer is logged. */
const slowMs = 1000;
/**
 * How long all parts of a serving process may take to stop. The kubelet kills plexusd after 30 s, and
 * the hand-back and the last writes follow. The Docker driver has as long.
 */
export const servingPartsMs = 20_000;

export interface Part<T> {
  /** For logs: `admin socket`. */
  readonly name: string;
  readonly start: () => T | Promise<T>;
  /** The limit is aborted when the process waits no longer for a part that started while it served. */
  readonly stop: (started: T, limit: AbortSignal) => unknown;
}

/** The state of a process, and its parts: they stop in the reverse order of their start. */
export class Life {
  readonly #logger: Logger;
  readonly #parts = new AsyncDisposableStack();
  #state: LifeState = "starting";
  #started = Promise.resolve();
  #limit = new AbortController().signal;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  get state(): LifeState {
    return this.#state;
  }

  /** Starts all parts by {@link start}. If that throws, stops the started parts, and throws the same. */
  run(startAll: () => Promise<void>): Promise<void> {
    this.#started = startAll().catch(async (error: unknown) => {
      if (this.#state === "serving") this.#state = "draining";
      await this.#stopParts().catch(() => undefined);
      throw error;
    });
    return this.#started;
  }

  async start<T>({ name, start, stop }: Part<T>): Promise<T> {
    const started = await this.#step({ part: name, step: "start" }, start);
    const isServing = this.#state !== "starting";
    this.#parts.defer(async () => {
      const limit = this.#limit;
      const stopped = async (): Promise<unknown> => stop(started, limit);
      await this.#step({ part: name, step: "stop" }, async () => {
        if (!isServing) return stopped();
        return untilAborted(stopped(), limit).catch((error: unknown) => {
          if (error !== limit.reason) throw error;
          this.#logger.warn(
            { part: name },
            "a part does not stop in time, and the others do not wait",
          );
        });
      });
    });
    return started;
  }

  /** From now on calls can be in flight, so that the process must not end at once. */
  serve(): void {
    if (this.#state === "starting") this.#state = "serving";
  }

  /**
   * Call this once. While the process is starting, there is nothing to stop. Otherwise waits for the
   * end of the start, and stops the parts. @throws what the start or a part throws
   */
  async stop(): Promise<void> {
    if (this.#state === "serving") {
      this.#state = "draining";
      await this.#started;
      await this.#stopParts();
    }
    this.#state = "stopped";
  }

  async #stopParts(): Promise<void> {
    using limit = deadline(servingPartsMs);
    this.#limit = limit.signal;
    await this.#parts.disposeAsync();
  }

  async #step<T>(step: object, run: () => T): Promise<Awaited<T>> {
    const slow = setTimeout(() => this.#logger.debug(step, "a part is slow"), slowMs);
    try {
      return await run();
    } catch (error) {
      this.#logger.debug({ ...step, err: error }, "a part failed");
      throw error;
    } finally {
      clearTimeout(slow);
    }
  }
}
