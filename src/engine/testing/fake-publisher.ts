import type {
  EventReason,
  EventRecorder,
  PodIdentity,
  PodName,
  PublishOptions,
  PublishOutcome,
  PublishPause,
  StatusPublisher,
} from "#engine/ports/cluster.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";

/** Keeps what is published, by `namespace/name`. */
export class FakePublisher implements StatusPublisher {
  readonly #journal: string[];
  readonly published = new Map<string, Readonly<Record<string, string | null>>>();
  readonly withdrawn: string[] = [];
  /** Pods to which a status was sent, with any outcome. */
  readonly requests: string[] = [];
  readonly #latest = new Map<string, object>();
  /** What publishing waits for. */
  gate: Promise<void> = Promise.resolve();
  /** What a request that is sent waits for until the API server applies it. */
  applied: Promise<void> = Promise.resolve();
  /** What the API server says of each request. */
  pause: PublishPause | undefined;
  /** How publishing ends; nothing is published while it is `pending`. */
  outcome: PublishOutcome = "settled";

  constructor(journal: string[]) {
    this.#journal = journal;
  }

  async publish(
    pod: PodIdentity,
    annotations: Readonly<Record<string, string | null>>,
    { isCurrent, onPause }: PublishOptions = {},
  ): Promise<PublishOutcome> {
    const key = `${pod.namespace}/${pod.name}`;
    this.#latest.set(key, annotations);
    await this.gate;
    if ((await isCurrent?.()) === false) return "pending";
    await this.applied;
    if (this.#latest.get(key) !== annotations) return "settled";
    this.requests.push(key);
    if (this.pause !== undefined) await onPause?.(this.pause);
    if (this.outcome === "pending") return "pending";
    this.#journal.push(`publish ${key}`);
    this.published.set(key, annotations);
    return "settled";
  }

  async withdraw(
    pod: PodName,
    { unless }: { readonly unless?: () => Promise<boolean> } = {},
  ): Promise<void> {
    if ((await unless?.()) === true) return;
    this.withdrawn.push(`${pod.namespace}/${pod.name}`);
    this.#latest.delete(`${pod.namespace}/${pod.name}`);
    this.published.delete(`${pod.namespace}/${pod.name}`);
  }

  /** The network-status of a pod, decoded. */
  status(pod: string): Record<string, unknown>[] {
    return JSON.parse(this.published.get(pod)?.[networkStatusAnnotation] ?? "[]");
  }
}

/** Keeps the events that are recorded. */
export class FakeEvents implements EventRecorder {
  readonly recorded: { pod: string; type: string; reason: EventReason; message: string }[] = [];

  record(
    pod: PodIdentity,
    event: { type: "Normal" | "Warning"; reason: EventReason; message: string },
  ): void {
    this.recorded.push({ pod: `${pod.namespace}/${pod.name}`, ...event });
  }

  get reasons(): EventReason[] {
    return this.recorded.map((event) => event.reason);
  }
}
