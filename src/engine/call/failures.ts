import { asCniError, CniError } from "#cni/error.ts";
import { HostGoneError } from "#engine/ports/host.ts";

/** The item for which a step failed, and its error. */
export interface Failure<T> {
  readonly item: T;
  readonly error: CniError;
}

/**
 * Runs a step for every item in order, also after failures, and returns the failures in order.
 * @throws HostGoneError at once: without the shim nothing more can be executed
 */
export async function collectFailures<T>(
  items: Iterable<T>,
  step: (item: T) => Promise<void>,
): Promise<Failure<T>[]> {
  const failures: Failure<T>[] = [];
  for (const item of items) {
    try {
      await step(item);
    } catch (error) {
      if (error instanceof HostGoneError) throw error;
      failures.push({ item, error: asCniError(error) });
    }
  }
  return failures;
}

/** As {@link collectFailures}, without the items. @returns the errors, in order */
export async function collectErrors<T>(
  items: Iterable<T>,
  step: (item: T) => Promise<void>,
): Promise<CniError[]> {
  return (await collectFailures(items, step)).map((failure) => failure.error);
}

/** One error for a teardown that failed in several places; a single error keeps its code. */
export function combineErrors(errors: readonly CniError[], summary: string): CniError {
  const [first] = errors;
  if (errors.length === 1 && first !== undefined) return first;
  const message = `${summary}: ${errors.map((error) => error.message).join("; ")}`;
  return new CniError("TeardownIncomplete", message, { cause: new AggregateError(errors) });
}
