import { isDeepStrictEqual } from "node:util";
import { Backoff, type BackoffOptions } from "#lib/concurrency/backoff.ts";
import { plexusConfName } from "#lib/files/default-paths.ts";
import type { CniConfDir } from "./conf-dir.ts";
import type { OwnConf } from "./plexus-conf.ts";
import type { NodeConfStatus } from "./status.ts";

/** What another process did to Plexus's file, as a state and its reason. */
export type ForeignChange = Pick<NodeConfStatus, "state" | "reason">;

/**
 * What others did to Plexus's file; `written` is what plexusd last wrote or read, if anything.
 * plexusd leaves what they append, and the order of keys, to them.
 */
export function findForeignChange(
  { text, conf, renamed }: CniConfDir,
  written: OwnConf | undefined,
): ForeignChange | undefined {
  if (written === undefined || isDeepStrictEqual(conf?.own, written)) return undefined;
  if (text !== undefined) {
    const reason = `the content of ${plexusConfName} was changed by someone else`;
    return { state: "missing", reason };
  }
  const [to] = renamed;
  return to === undefined
    ? { state: "missing", reason: `${plexusConfName} was removed by someone else` }
    : { state: "foreign-rename", reason: `${plexusConfName} was renamed to ${to} by someone else` };
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
    this.notNeeded();
    this.#lastRestored = performance.now();
  }

  notNeeded(): void {
    this.#restoreAt = undefined;
  }
}
