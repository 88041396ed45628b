import { isDeepStrictEqual } from "node:util";
import type {
  PodIdentity,
  PodName,
  PublishOptions,
  PublishOutcome,
  StatusPublisher,
} from "#engine/ports/cluster.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { type ApiError, asApiError } from "#kube/api/api-error.ts";
import type { JsonApi } from "#kube/api/json-api.ts";
import { apiPaths } from "#kube/api/paths.ts";
import { Backoff, type BackoffOptions } from "#lib/concurrency/backoff.ts";
import { deadline, pause, untilAborted } from "#lib/concurrency/deadline.ts";
import { isJsonObject } from "#lib/json.ts";
import type { KubeMetrics, StatusWriteResult } from "./metric-labels.ts";
import { keyOf, metadataOnly } from "./objects.ts";
import { UnansweredWrites } from "./unanswered-writes.ts";
import { WritePace, writeTimeoutMs } from "./write-pace.ts";

/** Between the last attempts of a process that ends. */
const lastAttempts: BackoffOptions = { initialMs: 200, maxMs: 1000 };
/** After a write that may succeed later. */
const retries: BackoffOptions = { initialMs: 500, maxMs: 60_000 };
/** After a status that the API server rejects: the policy that rejects it may be out of order. */
const rejections: BackoffOptions = { initialMs: 120_000, maxMs: 3_600_000 };
const readTimeoutMs = 10_000;

/** Values of annotations; null removes one. */
type Annotations = Readonly<Record<string, string | null>>;

interface StatusPublisherOptions {
  readonly client: JsonApi;
  readonly logger: Logger;
  /** How long a caller waits for its write. */
  readonly waitMs: number;
  /** For one PATCH. @default 30000 */
  readonly requestTimeoutMs?: number;
  /** @default 500 ms to 60 s */
  readonly backoff?: BackoffOptions;
  /** After a status that the API server rejects. @default two minutes to one hour */
  readonly rejections?: BackoffOptions;
  /** How long the API server may work on a write whose answer did not come. @default 60000 */
  readonly lateMs?: number;
  readonly metrics?: Partial<KubeMetrics>;
  /** Shared with other writers to the same API server. @default one for statuses alone */
  readonly pace?: WritePace;
}

interface Pending {
  /** Of the pod in {@link ApiStatusPublisher}'s maps. */
  readonly key: string;
  readonly pod: PodIdentity;
  /** The latest values; an attempt takes them, and returns them when it fails. */
  annotations: Annotations;
  /** What an attempt has taken. */
  taken: Annotations;
  /** The last caller's. */
  options: Pick<PublishOptions, "isCurrent" | "onPause">;
  /** `pending` when it was given up. */
  readonly done: Promise<PublishOutcome>;
  /** When neither this write nor an earlier one of the pod can reach the API server any more. */
  readonly ended: Promise<unknown>;
  /** Aborted when nothing more should be sent. What was sent may be written in any case. */
  readonly cancel: AbortController;
  /** Ends a pause that concerns the values: there are others. */
  changed: AbortController;
  /** Resolves when the next attempt is later than callers wait. */
  readonly deferred: PromiseWithResolvers<PublishOutcome>;
  /** The pauses of a process that ends. */
  readonly lastAttempts: Backoff;
  /** The first failure is logged as a warning, repetitions are not. */
  hasWarned: boolean;
}

/** The pause before the next attempt of a write. */
interface Pause {
  readonly delayMs: number;
  /** Another value need not wait. */
  readonly isOfValue: boolean;
  /** Whether an earlier attempt would be in vain. */
  readonly isNeeded: boolean;
}

/**
 * Sets annotations by a JSON merge PATCH of `pods/status` with the UID as precondition, without
 * reads or conflicts. Retries until it succeeds, the pod is gone, or the status is withdrawn or not
 * current any more; newer values are merged in. A value that the API server rejects is retried, too,
 * at most once a minute, and after some hours about once an hour. A value is written once more
 * when an earlier write, which had no answer, may have come after it.
 */
export class ApiStatusPublisher implements StatusPublisher {
  readonly #options: Required<Omit<StatusPublisherOptions, "lateMs">>;
  readonly #pending = new Map<string, Pending>();
  readonly #unanswered: UnansweredWrites;
  readonly #shutdown = new AbortController();
  /** Aborted when the process waits no longer for requests that were sent. */
  readonly #ended = new AbortController();
  /** Until when a process that ends waits, by performance.now(). */
  #endsAt = Infinity;

  constructor({ lateMs, ...options }: StatusPublisherOptions) {
    this.#unanswered = new UnansweredWrites(lateMs);
    const times = { requestTimeoutMs: writeTimeoutMs, backoff: retries, rejections };
    this.#options = { ...times, metrics: {}, pace: new WritePace(), ...options };
  }

  get pending(): number {
    return this.#pending.size;
  }

  async publish(
    pod: PodIdentity,
    annotations: Annotations,
    options: PublishOptions = {},
  ): Promise<PublishOutcome> {
    const { done, deferred } = this.#enqueue(pod, annotations, options);
    if (options.waitsForEnd === true) return done;
    using limit = deadline(this.#options.waitMs);
    try {
      return await untilAborted(Promise.race([done, deferred.promise]), limit.signal);
    } catch {
      this.#options.logger.warn(
        { podNamespace: pod.namespace, podName: pod.name },
        "status annotation not written in time; it is retried in the background",
      );
      return "pending";
    }
  }

  async withdraw(
    pod: PodName,
    { unless }: { readonly unless?: () => Promise<boolean> } = {},
  ): Promise<void> {
    const ofPod = [...this.#pending.values()].filter((each) => keyOf(each.pod) === keyOf(pod));
    if (ofPod.length === 0 || (await unless?.()) === true) return;
    for (const { cancel } of ofPod) cancel.abort();
  }

  /** Waits at most `graceMs` for pending writes. Nothing may be published after it. */
  async stop(graceMs: number): Promise<void> {
    this.#endsAt = performance.now() + graceMs;
    this.#shutdown.abort();
    using limit = deadline(graceMs);
    const pending = [...this.#pending.values()];
    const all = Promise.allSettled(pending.map((each) => each.ended));
    await untilAborted(all, limit.signal).catch(() => undefined);
    for (const each of pending) each.cancel.abort();
    this.#ended.abort();
    await all;
  }

  #enqueue(
    pod: PodIdentity,
    annotations: Annotations,
    options: PublishOptions,
  ): Pick<Pending, "done" | "deferred"> {
    const key = `${keyOf(pod)}/${pod.uid}`;
    const running = this.#pending.get(key);
    if (running !== undefined && !running.cancel.signal.aborted) {
      const wanted = { ...running.taken, ...running.annotations };
      // What is being sent is not sent again.
      if (!isDeepStrictEqual({ ...wanted, ...annotations }, wanted)) {
        running.annotations = { ...running.annotations, ...annotations };
        running.changed.abort();
      }
      running.options = options;
      return running;
    }
    const { promise: done, resolve } = Promise.withResolvers<PublishOutcome>();
    // The API server might apply the older request last.
    const ended = Promise.all([running?.ended, done]).finally(() => {
      if (this.#pending.get(key) === pending) this.#pending.delete(key);
    });
    const pending: Pending = {
      ...{ key, pod, annotations, taken: {}, options, done, ended },
      ...{ cancel: new AbortController(), changed: new AbortController() },
      ...{ deferred: Promise.withResolvers<PublishOutcome>(), hasWarned: false },
      lastAttempts: new Backoff(lastAttempts),
    };
    this.#pending.set(key, pending);
    const turn = Promise.resolve(running?.ended);
    const began = untilAborted(turn, pending.cancel.signal).catch(() => undefined);
    void began.then(() => this.#write(pending)).then(resolve);
    return pending;
  }

  async #write(pending: Pending): Promise<PublishOutcome> {
    const retried = new Backoff(this.#options.backoff);
    const rejected = new Backoff(this.#options.rejections);
    try {
      while (Object.keys(pending.annotations).length > 0) {
        const taken = pending.annotations;
        pending.taken = taken;
        pending.annotations = {};
        const { result, retryAfterMs } = await this.#attempt(pending, taken);
        pending.taken = {};
        if (result === "dropped") return "pending";
        if (result === "gone") return "settled";
        const lateMs = this.#unanswered.mayReplaceMs(pending.key, taken);
        if (result === "written" && lateMs === 0) continue;
        pending.annotations = { ...taken, ...pending.annotations };
        const delays = {
          retried: () => Math.max(retryAfterMs, retried.next()),
          invalid: () => rejected.next(),
          written: () => lateMs,
        };
        const isOfValue = result !== "retried";
        const isNeeded = isOfValue || retryAfterMs > 0;
        const next = { delayMs: delays[result](), isOfValue, isNeeded };
        if (!(await this.#pauseBefore(pending, next))) return "pending";
      }
      return "settled";
    } finally {
      // In the same turn as the last look at the annotations: a later publish() starts a new write.
      pending.cancel.abort();
    }
  }

  /** @returns whether there is a next attempt: a process that ends makes none in vain */
  async #pauseBefore(pending: Pending, { delayMs, isOfValue, isNeeded }: Pause): Promise<boolean> {
    const { cancel, deferred, lastAttempts } = pending;
    const { signal } = this.#shutdown;
    const until = performance.now() + delayMs;
    pending.changed = new AbortController();
    const { changed: another } = pending;
    if (isNeeded) await pending.options.onPause?.({ milliseconds: delayMs, isForAll: !isOfValue });
    if (delayMs > this.#options.waitMs) deferred.resolve("pending");
    if (!signal.aborted) {
      const changed = isOfValue ? [another.signal] : [];
      await pause(delayMs, AbortSignal.any([cancel.signal, signal, ...changed]));
      if (!signal.aborted || !isNeeded) return true;
    }
    const next = isNeeded ? until : performance.now() + lastAttempts.next();
    if (next >= this.#endsAt) return false;
    await pause(Math.max(0, next - performance.now()), cancel.signal);
    return true;
  }

  async #attempt(
    pending: Pending,
    annotations: Annotations,
  ): Promise<{ result: StatusWriteResult; retryAfterMs: number }> {
    const { pod, cancel } = pending;
    try {
      const send = async (): Promise<void> => {
        if ((await pending.options.isCurrent?.()) === false) cancel.abort();
        cancel.signal.throwIfAborted();
        await this.#patch(pending, annotations);
      };
      await this.#options.pace.run(pod.namespace, send, cancel.signal);
      this.#options.metrics.statusWrite?.("written");
      return { result: "written", retryAfterMs: 0 };
    } catch (thrown) {
      const error = asApiError(thrown);
      const result = cancel.signal.aborted ? "dropped" : await this.#classify(pod, error);
      this.#options.metrics.statusWrite?.(result);
      this.#logFailure(pending, { result, error });
      return { result, retryAfterMs: error.retryAfterMs };
    }
  }

  async #patch({ key, pod }: Pending, annotations: Annotations): Promise<void> {
    const request = {
      method: "PATCH",
      path: `${apiPaths.pod(pod)}/status`,
      query: { fieldManager: "plexus" },
      contentType: "application/merge-patch+json",
      accept: metadataOnly,
      body: { metadata: { uid: pod.uid, annotations } },
      timeoutMs: this.#options.requestTimeoutMs,
      signal: this.#ended.signal,
    } as const;
    try {
      await this.#options.client.write(request);
    } catch (error) {
      this.#unanswered.note(key, annotations, asApiError(error));
      throw error;
    }
  }

  /** A conflict may be about the UID or anything else: the pod tells. */
  async #classify(pod: PodIdentity, { status, isNotFound }: ApiError): Promise<StatusWriteResult> {
    if (isNotFound) return "gone";
    if ((status === 409 || status === 422) && (await this.#isReplaced(pod))) return "gone";
    return [400, 413, 422].includes(status) ? "invalid" : "retried";
  }

  async #isReplaced(pod: PodIdentity): Promise<boolean> {
    try {
      const { metadata } = await this.#options.client.json({
        path: apiPaths.pod(pod),
        accept: metadataOnly,
        timeoutMs: readTimeoutMs,
      });
      return isJsonObject(metadata) && metadata.uid !== pod.uid;
    } catch (error) {
      return asApiError(error).isNotFound;
    }
  }

  #logFailure(pending: Pending, outcome: { result: StatusWriteResult; error: ApiError }): void {
    const { result, error } = outcome;
    const { namespace: podNamespace, name: podName } = pending.pod;
    const fields = { podNamespace, podName, result, error: error.message };
    const isNew = result === "invalid" || (result === "retried" && !pending.hasWarned);
    this.#options.logger[isNew ? "warn" : "debug"](fields, "status annotation not written");
    pending.hasWarned = true;
  }
}
