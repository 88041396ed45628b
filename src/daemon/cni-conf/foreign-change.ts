import { Backoff, type BackoffOptions } from "#lib/concurrency/backoff.ts";
import type { CniConfDir } from "./plexus-conf.ts";

/** What another process did to Plexus's file. */
export type ForeignChange =
  | { readonly kind: "changed" }
  | { readonly kind: "removed" }
  | { readonly kind: "renamed"; readonly to: string };

/** What others did to Plexus's file; `written` is what plexusd last wrote or read, if anything. */
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
  readonly restore: BackoffOptions;
  /** After this time without a foreign change, the backoff restarts. */
  readonly calmMs: number;
}

/** Backs off restores: Cilium's exclusive mode, for example, removes other files at each start. */
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

  restored(): void {
    this.#restoreAt = undefined;
    this.#lastRestored = performance.now();
  }

  notNeeded(): void {
    this.#restoreAt = undefined;
  }
}
