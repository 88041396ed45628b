import type { ApiError } from "./api/api-error.ts";

/** One answer that is missing says nothing yet. */
const enough = 2;

/**
 * Whether the API server is known to be unavailable for writes: for those of one namespace, as when
 * its admission webhook is unavailable, or for all when it does not answer, or rejects the token.
 */
export class Unavailable {
  /** By namespace, "" for all: how many writes have failed in a row. */
  readonly #failures = new Map<string, number>();

  has(namespace: string): boolean {
    return ["", namespace].some((key) => (this.#failures.get(key) ?? 0) >= enough);
  }

  /** A server that asks for patience is there. */
  noteFailure(namespace: string, { status, transient }: ApiError): void {
    const isOfAll = status === 0 || status === 401;
    if (!isOfAll && (!transient || status === 429)) return;
    const key = isOfAll ? "" : namespace;
    this.#failures.set(key, (this.#failures.get(key) ?? 0) + 1);
  }

  /** A call has waited for an answer for as long as it may. */
  noteWait(namespace: string): void {
    this.#failures.set(namespace, enough);
  }

  /** @returns whether there were failures */
  noteSuccess(namespace: string): boolean {
    return [this.#failures.delete(""), this.#failures.delete(namespace)].includes(true);
  }
}
