import { Backoff, type BackoffOptions } from "#lib/concurrency/backoff.ts";
import type { CniConfDir } from "./plexus-conf.ts";

/** What somebody else did to our file. */
export type ForeignChange =
  | { readonly kind: "changed" }
  | { readonly kind: "removed" }
  | { readonly kind: "renamed"; readonly to: string };

/**
 * What somebody else did to our file, undefined = nothing. `written` is what it said when we last
 * wrote or read it, undefined = it has never been there.
 */
export function findForeignChange(
  dir: CniConfDir,
  written: string | undefined,
): ForeignChange | undefined {
  if (written === undefined || dir.text === written) return undefined;
  if (dir.text !== undefined) return { kind: "changed" };
  const to = dir.renamed[0];
  return to === undefined ? { kind: "removed" } : { kind: "renamed", to };
}

/** Times of a {@link RestoreBackoff}. */
export interface RestoreTimings {
  /** Between two restorations. */
  readonly restore: BackoffOptions;
  /** After so long without a foreign change the next one is undone at once again. */
  readonly calmMs: number;
}

/**
 * When our file may be restored: an agent that insists (Cilium's exclusive mode does at each of its
 * starts) is not fought in a loop.
 */
export class RestoreBackoff {
  readonly #backoff: Backoff;
  readonly #calmMs: number;
  #restoreAt: number | undefined;
  #lastRestored = Number.NEGATIVE_INFINITY;

  constructor(timings: RestoreTimings) {
    this.#backoff = new Backoff(timings.restore);
    this.#calmMs = timings.calmMs;
  }

  /** How long the restoration that is due has to wait: 0 = it may be done now. */
  waitMs(): number {
    const now = performance.now();
    if (now - this.#lastRestored > this.#calmMs) this.#backoff.reset();
    this.#restoreAt ??= now + this.#backoff.next();
    return Math.max(0, this.#restoreAt - now);
  }

  /** Our file is back by our hand. */
  restored(): void {
    this.#restoreAt = undefined;
    this.#lastRestored = performance.now();
  }

  /** Nothing has to be restored (any more). */
  notNeeded(): void {
    this.#restoreAt = undefined;
  }
}
