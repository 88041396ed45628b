import type { Pod } from "#engine/ports.ts";
import { Backoff } from "#lib/concurrency/backoff.ts";
import { defaultNetworkAnnotation, networksAnnotation } from "#npwg/selection/selection.ts";

/** Between attempts while another operation on the sandbox runs, which ends soon. */
export const busyBackoff = { initialMs: 100, maxMs: 5000 };
/** Between attempts that fail, which may need people. */
const failureBackoff = { initialMs: 1000, maxMs: 300_000 };

/** A pod of this node, and what is known about its networks. */
export interface WatchedPod {
  pod: Pod;
  /** The annotations that say what it is attached to. */
  text: string;
  /** When they were first seen, by the clock. */
  seenAt: number;
  /** Whether they changed since the pod was first seen. */
  isEdit: boolean;
  state: "new" | "running" | "settled" | "waiting" | "retrying";
  /** Whether something changed while an attempt was running. */
  isOutdated: boolean;
  /** Whether the watch delivered the pod while an attempt was running. */
  isSeenAgain: boolean;
  busy: Backoff;
  failures: Backoff;
  timer?: NodeJS.Timeout;
}

/** A pod that the watch delivers for the first time. */
export function watchPod(pod: Pod, seenAt: number): WatchedPod {
  return {
    ...{ pod, text: annotationsOf(pod), seenAt, isEdit: false, state: "new" },
    ...{ isOutdated: false, isSeenAgain: false },
    busy: new Backoff(busyBackoff),
    failures: new Backoff(failureBackoff),
  };
}

/** The annotations that say what a pod is attached to, as one text. */
export function annotationsOf({ annotations }: Pod): string {
  return JSON.stringify([annotations[networksAnnotation], annotations[defaultNetworkAnnotation]]);
}
