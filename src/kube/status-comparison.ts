import {
  type Pod,
  type StatusFailure,
  statusFailure,
  type WantedStatus,
} from "#engine/ports/cluster.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { ApiError, asApiError } from "#kube/api/api-error.ts";
import type { JsonApi } from "#kube/api/json-api.ts";
import { apiPaths } from "#kube/api/paths.ts";
import { deadline, untilAborted } from "#lib/concurrency/deadline.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";
import type { KubeMetrics } from "./metric-labels.ts";
import {
  metadataOnly,
  type ShownStatus,
  shownStatus,
  statusDigest,
  type WatchedPod,
} from "./objects.ts";
import type { Unavailable } from "./unavailable.ts";
import type { WatchCache } from "./watch/watch-cache.ts";
import { type WritePace, writeTimeoutMs } from "./write-pace.ts";
import { type WriteDelays, WriteTimes } from "./write-times.ts";

/** Others may write several times, and their last word may be the record's. */
const settleMs = 1000;

export interface StatusPublisherOptions {
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

/** What the statuses of all pods have in common. */
export interface StatusWriting extends StatusPublisherOptions {
  readonly pace: WritePace;
  readonly unavailable: Unavailable;
  /** Aborted when nothing more is sent. */
  readonly ended: AbortSignal;
  /** Until when a process that ends sends, by performance.now(). */
  endsAt: number;
  wanted: WantedStatus;
  /** Writes succeed after failures. */
  readonly onAvailable: () => void;
}

interface Waiter {
  readonly resolve: (failure: StatusFailure | undefined) => void;
  /** The record of the ADD that waits. */
  readonly own: RecordKey | undefined;
  /** When it gives up, by performance.now(). */
  readonly until: number;
}

/**
 * The status of one pod: a JSON merge PATCH of `pods/status` with the UID as precondition, without
 * reads or conflicts, sets the annotation whenever the text that the records want and what the pod
 * shows are different. The pod shows the newer one of what the watch has delivered and what the last
 * PATCH answered. The text is read again when the write's turn comes.
 */
export class StatusComparison {
  readonly #writing: StatusWriting;
  readonly #times: WriteTimes;
  readonly #waiters = new Set<Waiter>();
  pod: Pod;
  /** This process attaches the pod, which the watch need not have delivered yet. */
  #isOwn = false;
  /** What the watch has delivered last; undefined while it does not have the pod. */
  #seen: ShownStatus | undefined;
  /** What the API server made of the last text that it got. */
  #answer: (ShownStatus & { readonly text: string; readonly at: number }) | undefined;
  /** The comparison that runs, and whether something has changed since it began. */
  #running: Promise<void> | undefined;
  #isChanged = false;
  #isSending = false;
  #timer: NodeJS.Timeout | undefined;
  /** Ends the wait for a turn in the background. */
  #turn = new AbortController();

  constructor(writing: StatusWriting, pod: Pod) {
    this.#writing = writing;
    this.#times = new WriteTimes(writing.delays);
    this.pod = pod;
  }

  /** Why its last write failed. */
  get failure(): StatusFailure | undefined {
    return this.#times.failure;
  }

  get isPending(): boolean {
    return this.#timer !== undefined || this.#running !== undefined;
  }

  /** The record of the pod has changed. */
  changed(): void {
    this.#isOwn = true;
    void this.compare();
  }

  /** As {@link StatusPublisher.shown}. */
  async shown(signal: AbortSignal, own?: RecordKey): Promise<StatusFailure | undefined> {
    const { waitMs, unavailable } = this.#writing;
    using limit = deadline(waitMs, signal);
    const { promise, resolve } = Promise.withResolvers<StatusFailure | undefined>();
    const waiter = { resolve, own, until: performance.now() + waitMs };
    this.#waiters.add(waiter);
    this.#turn.abort();
    this.#times.renew();
    this.changed();
    try {
      return await untilAborted(promise, limit.signal);
    } catch (reason) {
      if (this.#isSending && !signal.aborted) unavailable.noteWait(this.pod.namespace);
      return this.#times.failure ?? statusFailure(reason);
    } finally {
      this.#waiters.delete(waiter);
    }
  }

  /** The watch has delivered the pod. */
  delivered(shown: ShownStatus): void {
    const { digest } = shown;
    const isNew = this.#seen === undefined || this.#seen.digest !== digest;
    this.#seen = shown;
    if (isNew && (digest === undefined || digest !== this.#answer?.digest))
      this.#later(settleMs * (1 + Math.random()));
  }

  /** One comparison at a time; each begins with what is true then. Never rejects. */
  compare(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#isChanged = true;
    this.#running ??= this.#compareNow().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** Repeats what is pending now, as other writes succeed again, or the process ends. */
  hasten(): void {
    if (!this.isPending) return;
    this.#times.hasten();
    void this.compare();
  }

  /** Drops what is pending, as the pod is gone or the process ends, and waits for what runs. */
  async end(failure?: StatusFailure): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#seen = undefined;
    this.#turn.abort();
    this.#tell(failure);
    await this.#running;
  }

  #tell(failure: StatusFailure | undefined): void {
    for (const { resolve } of this.#waiters) resolve(failure);
  }

  #later(ms: number): void {
    if (performance.now() + ms >= this.#writing.endsAt) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.compare(), ms);
  }

  async #compareNow(): Promise<void> {
    while (this.#isChanged && !this.#writing.ended.aborted) {
      this.#isChanged = false;
      await this.#step().catch((err: unknown) => {
        const message = "cannot compare the status of a pod with its record";
        this.#writing.logger.warn({ ...this.#fields(), err }, message);
        this.#tell(statusFailure(err));
      });
    }
  }

  async #step(): Promise<void> {
    const { pace, ended } = this.#writing;
    const text = await this.#difference();
    // Who has begun to wait meanwhile waits for another text.
    if (this.#isChanged) return;
    if (text === undefined) {
      this.#times.failure = undefined;
      return this.#tell(undefined);
    }
    const waitMs = this.#times.waitMs(text);
    if (waitMs > 0) {
      this.#tellLate(waitMs);
      return this.#later(waitMs);
    }
    this.#turn = new AbortController();
    const signal = AbortSignal.any([ended, this.#turn.signal]);
    const turn = { signal, isAwaited: this.#waiters.size > 0 };
    await pace
      .run(this.pod.namespace, () => this.#write(), turn)
      .catch((error: unknown) => {
        // A failed write has been logged, and is repeated.
        if (!(signal.aborted || error instanceof ApiError)) throw error;
      });
  }

  /** Tells those for whom the next write is too late. */
  #tellLate(waitMs: number): void {
    const { failure } = this.#times;
    const isHopeless = failure?.isRejected || this.#writing.unavailable.has(this.pod.namespace);
    const late =
      failure ?? statusFailure(`another component changes it; the next write is in ${waitMs} ms`);
    for (const { resolve, until } of this.#waiters)
      if (isHopeless || performance.now() + waitMs >= until) resolve(late);
  }

  /** The text that the pod should show and does not; undefined if nothing is to be written. */
  async #difference(): Promise<string | undefined> {
    const { pods, wanted } = this.#writing;
    const [waiter, ...others] = this.#waiters;
    if (pods !== undefined && !(this.#isOwn || waiter || this.#seen)) return undefined;
    // If the ADDs of several sandboxes wait, the records say which is the latest.
    const text = await wanted(this.pod, others.length > 0 ? undefined : waiter?.own);
    if (text === undefined) return undefined;
    const [seen, answer] = [this.#seen, this.#answer];
    // After a minute, the watch is not behind: the API server was set back.
    const isNewer =
      answer && seen && seen.version <= answer.version && performance.now() < answer.at + 60_000;
    const shown = seen === undefined || isNewer ? answer : seen;
    // What the API server makes of a text, such as a webhook, counts as the text.
    const isAnswer = answer?.text === text && answer.digest === shown?.digest;
    return isAnswer || shown?.digest === statusDigest(text) ? undefined : text;
  }

  /** @returns whether it has sent something @throws ApiError, after it has logged it */
  async #write(): Promise<boolean> {
    const { client, requestTimeoutMs: timeoutMs = writeTimeoutMs, ended } = this.#writing;
    const { pod } = this;
    const text = await this.#difference();
    this.#isChanged = true;
    if (text === undefined || this.#times.waitMs(text) > 0) return false;
    this.#isSending = true;
    try {
      const answer = await client.json({
        method: "PATCH",
        path: `${apiPaths.pod(pod)}/status`,
        query: { fieldManager: "plexus" },
        contentType: "application/merge-patch+json",
        accept: metadataOnly,
        body: { metadata: { uid: pod.uid, annotations: { [networkStatusAnnotation]: text } } },
        timeoutMs,
        signal: ended,
      });
      this.#answer = { ...shownStatus(answer), text, at: performance.now() };
      this.#note(text);
      return true;
    } catch (thrown) {
      const error = asApiError(thrown);
      if (!ended.aborted) this.#note(text, error);
      throw error;
    } finally {
      this.#isSending = false;
      this.#isOwn = false;
    }
  }

  /** Notes how the write of a text has ended. */
  #note(text: string, error?: ApiError): void {
    const { unavailable, metrics, logger, onAvailable } = this.#writing;
    const { namespace } = this.pod;
    const isFirst = this.#times.failure === undefined;
    const result = this.#times.note(text, error);
    metrics?.statusWrite?.(result);
    if (error === undefined) {
      if (unavailable.noteSuccess(namespace)) onAvailable();
      return;
    }
    unavailable.noteFailure(namespace, error);
    const level = isFirst || result === "rejected" ? "warn" : "debug";
    const fields = { ...this.#fields(), result, error: error.message };
    logger[level](fields, "status annotation not written");
  }

  #fields(): object {
    return { podNamespace: this.pod.namespace, podName: this.pod.name };
  }
}
