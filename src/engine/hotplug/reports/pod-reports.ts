import type { EventReason, EventRecorder, Pod } from "#engine/ports/cluster.ts";
import { LruMap } from "#lib/lru-map.ts";

/** The pods about whose last problem this process remembers that it was reported. */
const maxReported = 1000;
/** The reasons of events, by the part of the pod that they are about. */
const reasons = {
  "": "InterfaceAddRejected",
  default: "InterfaceAddRejected",
  lost: "InterfaceLost",
  mac: "NotManaged",
  record: "NotManaged",
  unknown: "NotManaged",
} as const satisfies Record<string, EventReason>;
type Part = keyof typeof reasons;

/** Events about problems of running pods, each once. */
export class PodReports {
  readonly #events: EventRecorder;
  /** By the pod's UID and the part: the last problem that became an event. */
  readonly #reported = new LruMap<string>(maxReported);

  constructor(events: EventRecorder) {
    this.#events = events;
  }

  /** Emits an event, unless it is the same as the last one about this part of the pod. */
  report(pod: Pod, message: string, part: Part = ""): void {
    const key = `${pod.uid}${part}`;
    if (this.#reported.peek(key) === message) return;
    this.#reported.set(key, message);
    this.#events.record(pod, { type: "Warning", reason: reasons[part], message });
  }

  /** The problem has ended, and is reported again when it comes back. */
  forget(uid: string, part: Part = ""): void {
    this.#reported.delete(`${uid}${part}`);
  }
}
