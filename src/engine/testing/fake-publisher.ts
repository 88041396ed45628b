import type {
  ComparedPod,
  EventRecorder,
  EventText,
  Pod,
  PodIdentity,
  StatusFailure,
  StatusPublisher,
  WantedStatus,
} from "#engine/ports/cluster.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import { eventTypeOf } from "#lib/reasons.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";

/** Keeps what pods show, by `namespace/name`. */
export class FakePublisher implements StatusPublisher {
  readonly #journal: string[];
  #wanted: WantedStatus = async () => undefined;
  readonly published = new Map<string, Readonly<Record<string, string>>>();
  /** Pods whose sandbox was detached. */
  readonly withdrawn: string[] = [];
  /** What publishing waits for. */
  gate: Promise<void> = Promise.resolve();
  /** Why nothing is published. */
  failure: StatusFailure | undefined;

  constructor(journal: string[]) {
    this.#journal = journal;
  }

  follow(wanted: WantedStatus): void {
    this.#wanted = wanted;
  }

  changed(pod: Pod): void {
    void this.compare(pod);
  }

  async shown(
    pod: Pod,
    _signal?: AbortSignal,
    own?: RecordKey,
  ): Promise<StatusFailure | undefined> {
    await this.compare(pod, own);
    return this.failure;
  }

  async detached(pod: ComparedPod): Promise<void> {
    if ((await this.#wanted(pod)) !== undefined) return;
    this.withdrawn.push(`${pod.namespace}/${pod.name}`);
    this.published.delete(`${pod.namespace}/${pod.name}`);
  }

  failures(): ReadonlyMap<string, StatusFailure> {
    const pods = this.failure === undefined ? [] : this.failed;
    return new Map(pods.map((pod) => [pod, this.failure as StatusFailure]));
  }

  /** Pods whose status was not published. */
  readonly failed: string[] = [];

  /** Publishes what the records want for a pod. */
  async compare(pod: ComparedPod, own?: RecordKey): Promise<void> {
    const key = `${pod.namespace}/${pod.name}`;
    await this.gate;
    const text = await this.#wanted(pod, own);
    if (text === undefined) return;
    if (this.failure !== undefined) {
      this.failed.push(key);
      return;
    }
    if (text === this.published.get(key)?.[networkStatusAnnotation]) return;
    this.#journal.push(`publish ${key}`);
    this.published.set(key, { [networkStatusAnnotation]: text });
  }

  /** The network-status of a pod, decoded. */
  status(pod: string): Record<string, unknown>[] {
    return JSON.parse(this.published.get(pod)?.[networkStatusAnnotation] ?? "[]");
  }
}

/** Keeps the events that are recorded. */
export class FakeEvents implements EventRecorder {
  readonly recorded: (EventText & { pod: string; type: string })[] = [];

  record({ namespace, name }: PodIdentity, event: EventText): void {
    this.recorded.push({ pod: `${namespace}/${name}`, type: eventTypeOf(event.reason), ...event });
  }

  get reasons(): string[] {
    return this.recorded.map((event) => event.reason);
  }
}
