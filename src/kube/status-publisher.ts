import type {
  ComparedPod,
  Pod,
  StatusFailure,
  StatusPublisher,
  WantedStatus,
} from "#engine/ports/cluster.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { type ApiError, asApiError } from "#kube/api/api-error.ts";
import type { JsonApi } from "#kube/api/json-api.ts";
import { apiPaths } from "#kube/api/paths.ts";
import { deadline, pause, untilAborted } from "#lib/concurrency/deadline.ts";
import { nextTurn } from "#lib/concurrency/next-turn.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import { mirrorAnnotation, runtimeUid } from "#npwg/object-meta.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";
import type { KubeMetrics, StatusWriteResult } from "./metric-labels.ts";
import {
  keyOf,
  metadataOnly,
  type ShownStatus,
  shownStatus,
  statusDigest,
  type WatchedPod,
} from "./objects.ts";
import { Unavailable } from "./unavailable.ts";
import type { WatchCache } from "./watch/watch-cache.ts";
import { WritePace, writeTimeoutMs } from "./write-pace.ts";
import { defaultDelays, type WriteDelays, WriteTimes } from "./write-times.ts";

/** Others may write several times, and their last word may be the record's. */
const settleMs = 1000;
/** Pods that are compared at a time: each comparison reads their records. */
const comparedAtOnce = 16;

interface StatusPublisherOptions {
  readonly client: JsonApi;
  readonly logger: Logger;
  /** How long a caller waits for its write. */
  readonly waitMs: number;
  /** The node's pods by the watch. @default nothing is watched: nothing shows others' changes */
  readonly pods?: Pick<WatchCache<WatchedPod>, "get" | "values">;
  /** For one PATCH. @default 30000 */
  readonly requestTimeoutMs?: number;
  readonly delays?: Partial<WriteDelays>;
  readonly metrics?: Partial<KubeMetrics>;
  /** Shared with other writers to the same API server. @default one for statuses alone */
  readonly pace?: WritePace;
}

/** What is known of one pod's status. */
interface Comparison {
  pod: Pod;
  readonly times: WriteTimes;
  /** What the API server made of the last text that it got. */
  answer?: ShownStatus & { readonly text: string };
  /** This process attaches the pod, which the watch need not have delivered yet. */
  isOwn: boolean;
  /** The comparison that runs, and whether something has changed since it began. */
  running?: Promise<void> | undefined;
  isChanged: boolean;
  timer?: NodeJS.Timeout | undefined;
  /** Ends the wait for a turn in the background. */
  turn: AbortController;
  readonly waiters: Set<Waiter>;
}

interface Waiter {
  readonly resolve: (failure: StatusFailure | undefined) => void;
  readonly own: RecordKey | undefined;
}

function tell(waiters: Iterable<Waiter>, failure: StatusFailure | undefined): void {
  for (const { resolve } of waiters) resolve(failure);
}

/**
 * Sets the annotation by a JSON merge PATCH of `pods/status` with the UID as precondition, without
 * reads or conflicts, whenever the text that the records want and what the pod shows are different.
 * The pod shows the newer one of what the watch has delivered and what the last PATCH answered. The
 * text is read again when the write's turn comes. Whether the pod still exists, the watch says.
 */
export class ApiStatusPublisher implements StatusPublisher {
  readonly #options: StatusPublisherOptions;
  readonly #delays: WriteDelays;
  readonly #pace: WritePace;
  readonly #unavailable = new Unavailable();
  /** By UID. */
  readonly #comparisons = new Map<string, Comparison>();
  /** What the watch has delivered last, by `namespace/name`. */
  readonly #seen = new Map<string, Pick<ShownStatus, "digest"> & { readonly uid: string }>();
  /** Aborted when nothing more is sent, and nothing waited for. */
  readonly #ended = new AbortController();
  /** Until when a process that ends sends, by performance.now(). */
  #endsAt = Infinity;
  #wanted: WantedStatus = async () => undefined;

  constructor(options: StatusPublisherOptions) {
    this.#options = options;
    this.#delays = { ...defaultDelays, ...options.delays };
    this.#pace = options.pace ?? new WritePace();
  }

  /** How many pods are about to get a status. */
  get pending(): number {
    return this.#waiting.length;
  }

  get #waiting(): readonly Comparison[] {
    return [...this.#comparisons.values()].filter(({ timer, running }) => timer ?? running);
  }

  follow(wanted: WantedStatus): void {
    this.#wanted = wanted;
  }

  changed(pod: Pod): void {
    const target = this.#target(pod);
    if (target !== undefined) void this.#compare(this.#of(target, true));
  }

  async shown(pod: Pod, signal: AbortSignal, own?: RecordKey): Promise<StatusFailure | undefined> {
    const { waitMs } = this.#options;
    const target = this.#target(pod);
    if (target === undefined) return undefined;
    const { namespace } = target;
    const comparison = this.#of(target, true);
    const { times, waiters, turn } = comparison;
    const failed = { message: "the API server does not answer", isRejected: false };
    if (this.#unavailable.has(namespace) || waitMs === 0) {
      void this.#compare(comparison);
      return times.failure ?? failed;
    }
    const { promise, resolve } = Promise.withResolvers<StatusFailure | undefined>();
    const waiter = { resolve, own };
    waiters.add(waiter);
    turn.abort();
    void this.#compare(comparison);
    using limit = deadline(waitMs, signal);
    try {
      return await untilAborted(promise, limit.signal);
    } catch {
      if (!signal.aborted) this.#unavailable.noteWait(namespace);
      return times.failure ?? { ...failed, message: `no answer within ${waitMs} ms` };
    } finally {
      waiters.delete(waiter);
    }
  }

  async detached(pod: ComparedPod): Promise<void> {
    for (const [uid, { pod: each, waiters }] of this.#comparisons) {
      if (keyOf(each) !== keyOf(pod) || waiters.size > 0) continue;
      if ((await this.#wanted(each)) === undefined) this.#forget(uid);
    }
  }

  failures(): ReadonlyMap<string, StatusFailure> {
    const all = [...this.#comparisons.values()].flatMap(({ pod, times: { failure } }) =>
      failure === undefined ? [] : [[keyOf(pod), failure] as const],
    );
    return new Map(all);
  }

  /** Takes a pod as the watch delivers it; undefined when it is gone. */
  podDelivered(key: string, pod: WatchedPod | undefined): void {
    const before = this.#seen.get(key);
    if (before !== undefined && before.uid !== pod?.uid) this.#forget(before.uid);
    this.#seen.delete(key);
    if (pod === undefined) return;
    const { uid, shown } = pod;
    this.#seen.set(key, { uid, digest: shown.digest });
    if (before?.uid === uid && before.digest === shown.digest) return;
    const comparison = this.#of(pod, false);
    if (comparison.running !== undefined) comparison.isChanged = true;
    else if (shown.digest === undefined || shown.digest !== comparison.answer?.digest)
      this.#later(comparison, settleMs * (1 + Math.random()));
  }

  /** Call this regularly: other processes attach pods, too. */
  async compareAll(): Promise<void> {
    const pods = [...(this.#options.pods?.values() ?? [])];
    const known = new Set(pods.map(({ uid }) => uid));
    for (const [uid, { timer, running }] of this.#comparisons)
      if (!known.has(uid) && timer === undefined && running === undefined) this.#forget(uid);
    for (let i = 0; i < pods.length; i += comparedAtOnce) {
      const some = pods.slice(i, i + comparedAtOnce);
      await Promise.all(some.map((pod) => this.#compare(this.#of(pod, false))));
      await nextTurn();
    }
  }

  /** Waits at most `graceMs` for pending writes. Nothing may be published after it. */
  async stop(graceMs: number): Promise<void> {
    this.#endsAt = performance.now() + graceMs;
    for (const each of this.#waiting) {
      each.times.hurry();
      void this.#compare(each);
    }
    while (this.pending > 0 && performance.now() < this.#endsAt) await pause(10);
    this.#ended.abort();
    for (const each of this.#comparisons.values()) clearTimeout(each.timer);
    await Promise.all(this.#waiting.map(({ running }) => running));
  }

  /** Of a static pod, the mirror. While the watch has none, there is nothing that could show a status. */
  #target(pod: Pod): Pod | undefined {
    if (!pod.isStatic || mirrorAnnotation in pod.annotations) return pod;
    const watched = this.#options.pods?.get(keyOf(pod));
    return watched && runtimeUid(watched) === pod.uid ? watched : undefined;
  }

  #of(pod: Pod, isOwn: boolean): Comparison {
    let comparison = this.#comparisons.get(pod.uid);
    if (comparison === undefined) {
      const times = new WriteTimes(this.#delays);
      const turn = new AbortController();
      comparison = { pod, times, isOwn, isChanged: false, turn, waiters: new Set() };
      this.#comparisons.set(pod.uid, comparison);
    }
    comparison.pod = pod;
    comparison.isOwn ||= isOwn;
    return comparison;
  }

  #forget(uid: string): void {
    const { timer, turn, waiters } = this.#comparisons.get(uid) ?? {};
    clearTimeout(timer);
    turn?.abort();
    this.#comparisons.delete(uid);
    tell(waiters ?? [], undefined);
  }

  #later(comparison: Comparison, ms: number): void {
    if (performance.now() + ms >= this.#endsAt) return;
    clearTimeout(comparison.timer);
    comparison.timer = setTimeout(() => void this.#compare(comparison), ms);
  }

  /** One comparison of a pod at a time; each begins with what is true then. Never rejects. */
  #compare(comparison: Comparison): Promise<void> {
    clearTimeout(comparison.timer);
    comparison.timer = undefined;
    comparison.isChanged = true;
    comparison.running ??= this.#compareNow(comparison).finally(() => {
      comparison.running = undefined;
    });
    return comparison.running;
  }

  async #compareNow(comparison: Comparison): Promise<void> {
    while (comparison.isChanged && !this.#ended.signal.aborted) {
      comparison.isChanged = false;
      try {
        await this.#step(comparison);
      } catch (err) {
        const { namespace: podNamespace, name: podName } = comparison.pod;
        const fields = { podNamespace, podName, err };
        this.#options.logger.warn(fields, "cannot compare the status of a pod with its record");
      }
    }
  }

  async #step(comparison: Comparison): Promise<void> {
    const { pod, times, waiters } = comparison;
    const text = await this.#difference(comparison);
    if (text === undefined) {
      times.failure = undefined;
      return tell(waiters, undefined);
    }
    const waitMs = times.waitMs(text);
    if (waitMs > 0) {
      if (times.failure?.isRejected) tell(waiters, times.failure);
      return this.#later(comparison, waitMs);
    }
    comparison.turn = new AbortController();
    const isAwaited = waiters.size > 0;
    const signal = AbortSignal.any([this.#ended.signal, comparison.turn.signal]);
    const send = () => this.#write(comparison);
    await this.#pace.run(pod.namespace, send, { signal, isAwaited }).catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
  }

  /** The text that the pod should show and does not; undefined if nothing is to be written. */
  async #difference({ pod, answer, isOwn, waiters }: Comparison): Promise<string | undefined> {
    const { pods } = this.#options;
    const watched = pods?.get(keyOf(pod));
    const waiter = [...waiters].at(-1);
    const isThere = pods === undefined || isOwn || waiter || watched?.uid === pod.uid;
    const text = isThere ? await this.#wanted(pod, waiter?.own) : undefined;
    if (text === undefined) return undefined;
    const seen = watched?.uid === pod.uid ? watched.shown : undefined;
    const shown = answer && (!seen || seen.version <= answer.version) ? answer : seen;
    // What the API server makes of a text, such as a webhook, counts as the text.
    const isAnswer = answer?.text === text && answer.digest === shown?.digest;
    return isAnswer || shown?.digest === statusDigest(text) ? undefined : text;
  }

  /** @returns whether it has sent something */
  async #write(comparison: Comparison): Promise<boolean> {
    const { pod, times } = comparison;
    const text = await this.#difference(comparison);
    if (text === undefined || times.waitMs(text) > 0) {
      comparison.isChanged = true;
      return false;
    }
    try {
      const answer = await this.#options.client.json({
        method: "PATCH",
        path: `${apiPaths.pod(pod)}/status`,
        query: { fieldManager: "plexus" },
        contentType: "application/merge-patch+json",
        accept: metadataOnly,
        body: { metadata: { uid: pod.uid, annotations: { [networkStatusAnnotation]: text } } },
        timeoutMs: this.#options.requestTimeoutMs ?? writeTimeoutMs,
        signal: this.#ended.signal,
      });
      comparison.answer = { ...shownStatus(answer), text };
      this.#written(comparison, text);
      return true;
    } catch (thrown) {
      const error = asApiError(thrown);
      this.#failed(comparison, { text, error });
      throw error;
    } finally {
      comparison.isOwn = false;
      comparison.isChanged = true;
    }
  }

  #written({ pod, times }: Comparison, text: string): void {
    times.note(text, "written");
    this.#options.metrics?.statusWrite?.("written");
    if (!this.#unavailable.noteSuccess(pod.namespace)) return;
    for (const each of this.#comparisons.values()) {
      if (!each.times.isRetried) continue;
      each.times.hasten();
      void this.#compare(each);
    }
  }

  #failed({ pod, times, waiters }: Comparison, of: { text: string; error: ApiError }): void {
    if (this.#ended.signal.aborted) return;
    const { text, error } = of;
    const result = resultOf(error);
    const isNew = times.failure === undefined || result === "rejected";
    times.note(text, result, error);
    if (performance.now() + times.waitMs(text) >= this.#endsAt) times.hurry();
    this.#options.metrics?.statusWrite?.(result);
    this.#unavailable.noteFailure(pod.namespace, error);
    if (result === "rejected" || this.#unavailable.has(pod.namespace)) tell(waiters, times.failure);
    const { namespace: podNamespace, name: podName } = pod;
    const fields = { podNamespace, podName, result, error: error.message };
    this.#options.logger[isNew ? "warn" : "debug"](fields, "status annotation not written");
  }
}

/** A pod that is gone, or replaced, the watch takes away: 404 and 409 need not be understood. */
function resultOf({ status }: ApiError): StatusWriteResult {
  const isRejected = status >= 400 && status < 500 && ![401, 404, 408, 409, 429].includes(status);
  return isRejected ? "rejected" : "retried";
}
