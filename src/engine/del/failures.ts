import { asCniError, CniError } from "#cni/error.ts";
import { HostGoneError } from "#engine/ports/host.ts";

/**
 * Runs a step for every item in order, also after failures, and returns the errors in order.
 * @throws HostGoneError at once: without the shim nothing more can be executed
 */
export async function collectErrors<T>(
  items: Iterable<T>,
  step: (item: T) => Promise<void>,
): Promise<CniError[]> {
  const errors: CniError[] = [];
  for (const item of items) {
    try {
      await step(item);
    } catch (error) {
      if (error instanceof HostGoneError) throw error;
      errors.push(asCniError(error));
    }
  }
  return errors;
}

/** One error for a teardown that failed in several places; a single error keeps its code. */
export function combineErrors(errors: readonly CniError[], summary: string): CniError {
  const [first] = errors;
  if (errors.length === 1 && first !== undefined) return first;
  const message = `${summary}: ${errors.map((error) => error.message).join("; ")}`;
  return new CniError("TeardownIncomplete", message, { cause: new AggregateError(errors) });
}
