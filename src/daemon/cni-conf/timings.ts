import type { RestoreTimings } from "./foreign-change.ts";

/** Times of keeping the node's CNI configuration. */
export interface NodeConfTimings extends RestoreTimings {
  /** How often everything is checked although no watch reports a change. */
  readonly pollMs: number;
  /** The same while something is waited for that may not be in a watched directory. */
  readonly waitingPollMs: number;
  /** How long after a change everything is checked: agents write several files. */
  readonly debounceMs: number;
  /** How long a previous primary may be away before another is taken for its successor. */
  readonly goneMs: number;
}

/** The times for production. */
export const defaultTimings: NodeConfTimings = {
  pollMs: 30_000,
  waitingPollMs: 1000,
  debounceMs: 100,
  goneMs: 60_000,
  restore: { initialMs: 100, maxMs: 300_000, factor: 4, jitter: 0.2 },
  calmMs: 600_000,
};
