import type { RestoreTimings } from "./foreign-change.ts";

/** Times of keeping the node's CNI configuration. */
export interface NodeConfTimings extends RestoreTimings {
  /** How often everything is checked without a change. */
  readonly pollMs: number;
  /** The same in state `waiting`, whose cause may be outside of the watched directories. */
  readonly waitingPollMs: number;
  /** Delay between a change and the check: agents write several files. */
  readonly debounceMs: number;
  /** How long a previous primary may be missing before another one replaces it. */
  readonly goneMs: number;
}

export const defaultTimings: NodeConfTimings = {
  pollMs: 30_000,
  waitingPollMs: 1000,
  debounceMs: 100,
  goneMs: 60_000,
  restore: { initialMs: 100, maxMs: 300_000, factor: 4, jitter: 0.2 },
  calmMs: 600_000,
};
