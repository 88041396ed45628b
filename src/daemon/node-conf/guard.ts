import { Backoff, type BackoffOptions } from "#lib/backoff.ts";
import type { OwnFileView } from "./own-file.ts";
import { ownFileName } from "./primary.ts";
import type { ConfStatus } from "./state.ts";

/** Times of an {@link OwnFileGuard}. */
export interface GuardOptions {
  /** Between two restorations. */
  readonly restore: BackoffOptions;
  /** After so long without a disturbance the next one is answered at once again. */
  readonly calmMs: number;
}

/**
 * Notices that somebody else has renamed, removed or changed our file, and paces its restoration:
 * an agent that insists (Cilium's exclusive mode does at each of its starts) is not fought in a loop.
 */
export class OwnFileGuard {
  readonly #backoff: Backoff;
  readonly #calmMs: number;
  #restoreAt: number | undefined;
  #lastRestored = Number.NEGATIVE_INFINITY;

  constructor(options: GuardOptions) {
    this.#backoff = new Backoff(options.restore);
    this.#calmMs = options.calmMs;
  }

  /**
   * What somebody else did to our file: `written` is what it said when we last saw to it, undefined
   * = it has never been there. Undefined = nothing.
   */
  disturbance(view: OwnFileView, written: string | undefined): ConfStatus | undefined {
    if (written === undefined || view.text === written) {
      this.#restoreAt = undefined;
      return undefined;
    }
    if (view.text !== undefined) {
      return {
        state: "missing",
        reason: `the content of ${ownFileName} was changed by someone else`,
      };
    }
    const other = view.renamed[0];
    return other === undefined
      ? { state: "missing", reason: `${ownFileName} was removed by someone else` }
      : {
          state: "foreign-rename",
          reason: `${ownFileName} was renamed to ${other} by someone else`,
        };
  }

  /** How long a restoration has to wait: 0 = it may be done now. */
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
}
