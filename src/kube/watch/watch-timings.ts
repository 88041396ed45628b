import type { ListWatchTimings } from "#kube/api/list-watch.ts";
import type { BackoffOptions } from "#lib/concurrency/backoff.ts";

/** Times of a watch; the defaults are for production. */
export interface WatchTimings extends ListWatchTimings {
  readonly backoff: BackoffOptions;
  /** How often an absent resource type (a CRD not yet applied) is looked for. */
  readonly absentMs: number;
}

/** What production uses. */
export const defaultWatchTimings: WatchTimings = {
  backoff: { initialMs: 500, maxMs: 30_000 },
  requestTimeoutMs: 30_000,
  idleMs: 90_000,
  watchSeconds: 300,
  absentMs: 15_000,
};
