import type { Logger, PodReference, PublishOutcome, StatusPublisher } from "#engine/ports.ts";
import { type ApiError, asApiError } from "#kube/api/api-error.ts";
import type { JsonApi } from "#kube/api/json-api.ts";
import { apiPaths } from "#kube/api/paths.ts";
import { Backoff, type BackoffOptions } from "#lib/concurrency/backoff.ts";
import { deadline, pause, untilAborted } from "#lib/concurrency/deadline.ts";
import { Slots } from "#lib/concurrency/slots.ts";
import { isJsonObject } from "#lib/json.ts";
import type { KubeMetrics, StatusWriteResult } from "./metric-labels.ts";
import { keyOf, metadataOnly } from "./objects.ts";

const shutdownPauseMs = 100;
/** A quarter of the connections to the API server: writes that hang leave the others for reads. */
const maxWrites = 8;

/** Values of annotations; null removes one. */
type Annotations = Readonly<Record<string, string | null>>;

interface StatusPublisherOptions {
  readonly client: JsonApi;
  readonly logger: Logger;
  /** How long a caller waits for its write. */
  readonly waitMs: number;
  /** For one PATCH. @default 10000 */
  readonly requestTimeoutMs?: number;
  /** @default 500 ms to 60 s */
  readonly backoff?: BackoffOptions;
  readonly metrics?: Partial<KubeMetrics>;
}

interface Pending {
  readonly pod: PodReference;
  /** The latest values; an attempt takes them, and returns them when it fails. */
  annotations: Annotations;
  /** `pending` when it was given up. */
  readonly done: Promise<PublishOutcome>;
  /** Aborted when nothing more should be sent. What was sent may be written in any case. */
  readonly cancel: AbortController;
  /** The first failure is logged as a warning, repetitions are not. */
  hasWarned: boolean;
}

/**
 * Sets annotations by a JSON merge PATCH of `pods/status` with the UID as precondition, without
 * reads or conflicts. Retries until it succeeds or the pod is gone; newer values are merged in.
 */
export class ApiStatusPublisher implements StatusPublisher {
  readonly #options: Required<StatusPublisherOptions>;
  readonly #pending = new Map<string, Pending>();
  readonly #slots = new Slots(maxWrites);
  readonly #shutdown = new AbortController();
  /** Aborted when the process waits no longer for requests that were sent. */
  readonly #ended = new AbortController();

  constructor(options: StatusPublisherOptions) {
    const backoff = { initialMs: 500, maxMs: 60_000 };
    this.#options = { requestTimeoutMs: 10_000, backoff, metrics: {}, ...options };
  }

  get pending(): number {
    return this.#pending.size;
  }

  async publish(
    pod: PodReference,
    annotations: Annotations,
    after?: Promise<void>,
  ): Promise<PublishOutcome> {
    const done = this.#enqueue(pod, annotations, after);
    if (after !== undefined) return done;
    using limit = deadline(this.#options.waitMs);
    try {
      return await untilAborted(done, limit.signal);
    } catch {
      this.#options.logger.warn(
        { podNamespace: pod.namespace, podName: pod.name },
        "status annotation not written in time; it is retried in the background",
      );
      return "pending";
    }
  }

  async withdraw(pod: { readonly namespace: string; readonly name: string }): Promise<void> {
    const pending = [...this.#pending.values()];
    for (const each of pending) if (keyOf(each.pod) === keyOf(pod)) each.cancel.abort();
  }

  /** Waits at most `graceMs` for pending writes. Nothing may be published after it. */
  async stop(graceMs: number): Promise<void> {
    this.#shutdown.abort();
    using limit = deadline(graceMs);
    const pending = [...this.#pending.values()];
    const all = Promise.allSettled(pending.map((each) => each.done));
    await untilAborted(all, limit.signal).catch(() => undefined);
    for (const each of pending) each.cancel.abort();
    this.#ended.abort();
    await all;
  }

  #enqueue(
    pod: PodReference,
    annotations: Annotations,
    after: Promise<void> | undefined,
  ): Promise<PublishOutcome> {
    const key = `${keyOf(pod)}/${pod.uid}`;
    const running = this.#pending.get(key);
    if (running !== undefined && !running.cancel.signal.aborted) {
      running.annotations = { ...running.annotations, ...annotations };
      return running.done;
    }
    const { promise: done, resolve } = Promise.withResolvers<PublishOutcome>();
    const pending = { pod, annotations, done, cancel: new AbortController(), hasWarned: false };
    this.#pending.set(key, pending);
    // The API server might apply the older request last.
    const turn = Promise.all([after, running?.done]);
    const began = untilAborted(turn, pending.cancel.signal).catch(() => undefined);
    void began.then(() => this.#write(pending, key)).then(resolve);
    return done;
  }

  async #write(pending: Pending, key: string): Promise<PublishOutcome> {
    const backoff = new Backoff(this.#options.backoff);
    try {
      while (Object.keys(pending.annotations).length > 0) {
        const taken = pending.annotations;
        pending.annotations = {};
        const { result, retryAfterMs } = await this.#attempt(pending, taken);
        if (result === "dropped") return "pending";
        if (result === "gone") return "settled";
        if (result !== "retried") continue;
        pending.annotations = { ...taken, ...pending.annotations };
        await this.#pauseBefore(pending, Math.max(retryAfterMs, backoff.next()));
      }
      return "settled";
    } finally {
      // In the same turn as the last look at the annotations: a later publish() starts a new write.
      if (this.#pending.get(key) === pending) this.#pending.delete(key);
    }
  }

  async #pauseBefore({ cancel }: Pending, delayMs: number): Promise<void> {
    const { signal } = this.#shutdown;
    if (signal.aborted) await pause(shutdownPauseMs, cancel.signal);
    else await pause(delayMs, AbortSignal.any([cancel.signal, signal]));
  }

  async #attempt(
    pending: Pending,
    annotations: Annotations,
  ): Promise<{ result: StatusWriteResult; retryAfterMs: number }> {
    const { pod, cancel } = pending;
    try {
      using _slot = await this.#slots.acquire(cancel.signal);
      await this.#patch(pod, annotations);
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

  #patch(pod: PodReference, annotations: Annotations): Promise<void> {
    return this.#options.client.write({
      method: "PATCH",
      path: `${apiPaths.pod(pod)}/status`,
      query: { fieldManager: "plexus" },
      contentType: "application/merge-patch+json",
      accept: metadataOnly,
      body: { metadata: { uid: pod.uid, annotations } },
      timeoutMs: this.#options.requestTimeoutMs,
      signal: this.#ended.signal,
    });
  }

  /** A conflict may be about the UID or anything else: the pod tells. */
  async #classify(pod: PodReference, { status }: ApiError): Promise<StatusWriteResult> {
    if (status === 404) return "gone";
    if ((status === 409 || status === 422) && (await this.#isReplaced(pod))) return "gone";
    return [400, 413, 422].includes(status) ? "invalid" : "retried";
  }

  async #isReplaced(pod: PodReference): Promise<boolean> {
    try {
      const answer = await this.#options.client.json({
        path: apiPaths.pod(pod),
        accept: metadataOnly,
        timeoutMs: this.#options.requestTimeoutMs,
      });
      const metadata = isJsonObject(answer) ? answer.metadata : undefined;
      return isJsonObject(metadata) && metadata.uid !== pod.uid;
    } catch (error) {
      return asApiError(error).status === 404;
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
