import {
  type Pod,
  type StatusFailure,
  type StatusPublisher,
  statusFailure,
  type WantedStatus,
} from "#engine/ports/cluster.ts";
import { pause } from "#lib/concurrency/deadline.ts";
import { nextTurn } from "#lib/concurrency/next-turn.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import { isStaticPod, mirrorAnnotation, runtimeUid } from "#npwg/object-meta.ts";
import { keyOf, type WatchedPod } from "./objects.ts";
import {
  StatusComparison,
  type StatusPublisherOptions,
  type StatusWriting,
} from "./status-comparison.ts";
import { Unavailable } from "./unavailable.ts";
import { WritePace } from "./write-pace.ts";

/** How long an ADD waits until its status is written: the shim gives up after 30 s (shim/shim.h). */
export function statusWaitMs(apiTimeoutMs: number): number {
  return Math.min(2 * apiTimeoutMs, 20_000);
}

/** Pods that are compared at a time: each comparison reads their records. */
const comparedAtOnce = 16;

/**
 * Compares each pod ({@link StatusComparison}) when its record changes, when the watch delivers it, and
 * regularly. Whether a pod still exists, the watch says.
 */
export class ApiStatusPublisher implements StatusPublisher {
  readonly #writing: StatusWriting;
  /** By UID. */
  readonly #statuses = new Map<string, StatusComparison>();
  /** Of the pods that the watch has, by `namespace/name`. */
  readonly #uids = new Map<string, string>();
  readonly #ended = new AbortController();

  constructor(options: StatusPublisherOptions) {
    this.#writing = {
      pace: new WritePace(),
      ...options,
      unavailable: new Unavailable(),
      ended: this.#ended.signal,
      endsAt: Infinity,
      wanted: async () => undefined,
      onAvailable: () => this.#hasten(),
    };
  }

  /** How many pods are about to get a status. */
  get pending(): number {
    return [...this.#statuses.values()].filter(({ isPending }) => isPending).length;
  }

  follow(wanted: WantedStatus): void {
    this.#writing.wanted = wanted;
  }

  changed(pod: Pod): void {
    const target = this.#target(pod);
    if (target !== undefined) this.#of(target).changed();
  }

  async shown(pod: Pod, signal: AbortSignal, own?: RecordKey): Promise<StatusFailure | undefined> {
    const { unavailable, waitMs } = this.#writing;
    const target = this.#target(pod);
    if (target === undefined) return undefined;
    const status = this.#of(target);
    if (waitMs > 0 && !unavailable.has(target.namespace)) return status.shown(signal, own);
    status.changed();
    return status.failure ?? statusFailure("the API server does not answer");
  }

  /** Nothing is written because of a DEL. */
  async detached(): Promise<void> {}

  failures(): ReadonlyMap<string, StatusFailure> {
    const failed = [...this.#statuses.values()].filter(({ failure }) => failure !== undefined);
    return new Map(failed.map(({ pod, failure }) => [keyOf(pod), failure as StatusFailure]));
  }

  /** Takes a pod as the watch delivers it; undefined when it is gone. */
  podDelivered(key: string, pod: WatchedPod | undefined): void {
    const before = this.#uids.get(key);
    if (before !== undefined && before !== pod?.uid) this.#forget(before);
    this.#uids.delete(key);
    if (pod === undefined) return;
    this.#uids.set(key, pod.uid);
    this.#of(pod).delivered(pod.shown);
  }

  /** Call this regularly: other processes attach pods, too. */
  async compareAll(): Promise<void> {
    const pods = [...(this.#writing.pods?.values() ?? [])];
    const known = new Set(pods.map(({ uid }) => uid));
    for (const [uid, { isPending }] of this.#statuses)
      if (!known.has(uid) && !isPending) this.#forget(uid);
    for (let i = 0; i < pods.length; i += comparedAtOnce) {
      const some = pods.slice(i, i + comparedAtOnce);
      await Promise.all(some.map((pod) => this.#of(pod).compare()));
      await nextTurn();
    }
  }

  /** Waits at most `graceMs` for pending writes. Nothing may be published after it. */
  async stop(graceMs: number): Promise<void> {
    const endsAt = performance.now() + graceMs;
    this.#writing.endsAt = endsAt;
    this.#hasten();
    while (this.pending > 0 && performance.now() < endsAt) await pause(10);
    this.#ended.abort();
    const failure = statusFailure("the process ends");
    await Promise.all([...this.#statuses.values()].map((each) => each.end(failure)));
  }

  /** Of a static pod, the mirror. While the watch has none, there is nothing that could show a status. */
  #target(pod: Pod): Pod | undefined {
    if (!isStaticPod(pod.annotations) || mirrorAnnotation in pod.annotations) return pod;
    const watched = this.#writing.pods?.get(keyOf(pod));
    return watched && runtimeUid(watched) === pod.uid ? watched : undefined;
  }

  #of(pod: Pod): StatusComparison {
    const status = this.#statuses.get(pod.uid) ?? new StatusComparison(this.#writing, pod);
    this.#statuses.set(pod.uid, status);
    status.pod = pod;
    return status;
  }

  #hasten(): void {
    for (const each of this.#statuses.values()) each.hasten();
  }

  #forget(uid: string): void {
    void this.#statuses.get(uid)?.end();
    this.#statuses.delete(uid);
  }
}
