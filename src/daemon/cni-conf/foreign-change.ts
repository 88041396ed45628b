import { Backoff, type BackoffOptions } from "#lib/concurrency/backoff.ts";
import type { CniConfDir } from "./plexus-conf.ts";

/** What another process did to Plexus's file. */
export type ForeignChange =
  | { readonly kind: "changed" }
  | { readonly kind: "removed" }
  | { readonly kind: "renamed"; readonly to: string };

/**
 * Finds out what another process did to Plexus's file; undefined when nothing. `written` is its text
 * when plexusd last wrote or read it, undefined when it never existed.
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
  /** After this time without a foreign change, the backoff restarts. */
  readonly calmMs: number;
}

/** Backs off restores, because some agents remove other files repeatedly: Cilium's exclusive mode at each start. */
export class RestoreBackoff {
  readonly #backoff: Backoff;
  readonly #calmMs: number;
  #restoreAt: number | undefined;
  #lastRestored = Number.NEGATIVE_INFINITY;

  constructor(timings: RestoreTimings) {
    this.#backoff = new Backoff(timings.restore);
    this.#calmMs = timings.calmMs;
  }

  /** How long the restore still has to wait; 0 when it is due. */
  waitMs(): number {
    const now = performance.now();
    if (now - this.#lastRestored > this.#calmMs) this.#backoff.reset();
    this.#restoreAt ??= now + this.#backoff.next();
    return Math.max(0, this.#restoreAt - now);
  }

  /** plexusd restored its file. */
  restored(): void {
    this.#restoreAt = undefined;
    this.#lastRestored = performance.now();
  }

  /** Nothing has to be restored. */
  notNeeded(): void {
    this.#restoreAt = undefined;
  }
}
