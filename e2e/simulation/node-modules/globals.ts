import { clockMs, monotonicMs } from "../world/ground.ts";
import { world } from "../world/world.ts";

/*
 * What the bundle of the simulation has in place of Node's globals: time and chance of the history
 * (e2e/simulation/bundle.ts).
 */

type Timer = ReturnType<ReturnType<typeof world>["schedule"]["at"]>;

/** A timer as Node returns it. */
class SimulatedTimeout {
  readonly #timer: Timer;

  constructor(timer: Timer) {
    this.#timer = timer;
  }

  cancel(): void {
    world().schedule.cancel(this.#timer);
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }
}

function simulatedSetTimeout(
  run: (...values: unknown[]) => void,
  ms = 0,
  ...values: unknown[]
): SimulatedTimeout {
  // Node waits for at least one millisecond.
  const delayMs = Math.max(1, ms);
  return new SimulatedTimeout(world().schedule.at(delayMs * 1000, () => run(...values)));
}

function simulatedClearTimeout(timeout: SimulatedTimeout | undefined): void {
  timeout?.cancel();
}

function simulatedSetImmediate(run: (...values: unknown[]) => void, ...values: unknown[]) {
  return new SimulatedTimeout(world().schedule.at(1, () => run(...values)));
}

const RealDate = globalThis.Date;

/** `new Date()` shows the machine's clock. */
class SimulatedDate extends RealDate {
  constructor(...parts: [] | [number | string]) {
    super(...((parts.length === 0 ? [clockMs()] : parts) as [number]));
  }

  static override now(): number {
    return Math.floor(clockMs());
  }
}

const simulatedPerformance = { timeOrigin: 0, now: monotonicMs };

function simulatedHrtime(): bigint {
  return BigInt(Math.round(monotonicMs() * 1e6));
}

function simulatedRandom(): number {
  return world().random.next();
}

/** Node keeps what listens to its own `any` forever if a process was killed, so a worker would grow. */
const SimulatedAbortSignal = {
  any(signals: readonly AbortSignal[]): AbortSignal {
    const controller = new AbortController();
    for (const signal of signals) {
      const abort = (): void => controller.abort(signal.reason);
      if (signal.aborted) abort();
      else signal.addEventListener("abort", abort, { once: true });
    }
    return controller.signal;
  },
};

export {
  SimulatedAbortSignal as AbortSignal,
  SimulatedDate as Date,
  simulatedClearTimeout as clearTimeout,
  simulatedHrtime,
  simulatedPerformance as performance,
  simulatedRandom,
  simulatedSetImmediate as setImmediate,
  simulatedSetTimeout as setTimeout,
};
