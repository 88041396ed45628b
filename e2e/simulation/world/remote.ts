import type { Process } from "./schedule.ts";
import { world } from "./world.ts";

/** A process ended before it answered. */
class ProcessGoneError extends Error {
  override readonly name = "ProcessGoneError";
}

/**
 * Runs a step as a part of another process, and settles as it does in the present one.
 * @throws ProcessGoneError when the other process ends first
 */
export function inProcess<T>(other: Process, step: () => Promise<T>): Promise<T> {
  const { schedule, random } = world();
  const caller = schedule.current;
  const latencyUs = (): number => random.duration(20, 2000);
  return new Promise((resolve, reject) => {
    const back = (settle: () => void): void => void schedule.at(latencyUs(), settle, caller);
    other.onEnd(() => back(() => reject(new ProcessGoneError(`${other.name} has ended`))));
    const run = (): void => {
      step().then(
        (value) => back(() => resolve(value)),
        (error: unknown) => back(() => reject(error)),
      );
    };
    schedule.at(latencyUs(), run, other);
  });
}
