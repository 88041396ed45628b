import type { Logger, PodReference, PublishOutcome, StatusPublisher } from "#engine/ports.ts";
import { type ApiError, asApiError } from "#kube/api/api-error.ts";
import type { ApiClient } from "#kube/api/client.ts";
import { apiPaths } from "#kube/watch/cluster-source.ts";
import { Backoff, type BackoffOptions } from "#lib/concurrency/backoff.ts";
import { deadline, pause, untilAborted } from "#lib/concurrency/deadline.ts";
import { Slots } from "#lib/concurrency/slots.ts";
import { isJsonObject } from "#lib/json.ts";
import type { StatusWriteResult } from "./metric-labels.ts";
import { metadataOnly } from "./objects.ts";

const hurriedPauseMs = 100;
/** A quarter of the connections to the API server: writes that hang must not keep reads from theirs. */
const concurrentWrites = 8;

/** Options of an {@link ApiStatusPublisher}. */
interface StatusPublisherOptions {
  readonly client: ApiClient;
  readonly logger: Logger;
  /** How long a caller waits for its write. */
  readonly waitMs: number;
  /** For one PATCH. @default 10000 */
  readonly requestTimeoutMs?: number;
  /** @default 500 ms to 60 s */
  readonly backoff?: BackoffOptions;
  readonly onWrite?: (result: StatusWriteResult) => void;
}

/** What is still to be written on one pod. */
interface Pending {
  readonly pod: PodReference;
  /** The latest value of each annotation; taken over by an attempt, given back when it fails. */
  annotations: Record<string, string | null>;
  readonly done: Promise<void>;
  /** Fires when nothing more is to be written for it. */
  readonly cancel: AbortController;
  /** A failure has been logged as a warning; further ones are only repetition. */
  hasWarned: boolean;
}

/**
 * Sets annotations by a JSON merge PATCH of `pods/status`: no read before it, no conflict with other
 * writers, and the UID in it as precondition. What cannot be written in time goes on being tried
 * until it is written or the pod is gone; a newer value of the same pod joins the older ones. Writes beyond
 * {@link concurrentWrites} wait, one for each pod that has not been detached.
 */
export class ApiStatusPublisher implements StatusPublisher {
  readonly #options: Required<Omit<StatusPublisherOptions, "onWrite">>;
  readonly #onWrite: (result: StatusWriteResult) => void;
  readonly #pending = new Map<string, Pending>();
  readonly #slots = new Slots(concurrentWrites);
  /** Fires at shutdown: pauses are cut short. */
  readonly #hurry = new AbortController();

  constructor(options: StatusPublisherOptions) {
    const { onWrite, ...rest } = options;
    const backoff = { initialMs: 500, maxMs: 60_000 };
    this.#options = { requestTimeoutMs: 10_000, backoff, ...rest };
    this.#onWrite = onWrite ?? ((): void => undefined);
  }

  /** How many pods have something still to be written. */
  get pending(): number {
    return this.#pending.size;
  }

  async publish(
    pod: PodReference,
    annotations: Readonly<Record<string, string | null>>,
  ): Promise<PublishOutcome> {
    const done = this.#enqueue(pod, annotations);
    using limit = deadline(this.#options.waitMs);
    try {
      await untilAborted(done, limit.signal);
      return "settled";
    } catch {
      const fields = { podNamespace: pod.namespace, podName: pod.name };
      this.#options.logger.warn(
        fields,
        "status annotation not written in time; it is retried in the background",
      );
      return "pending";
    }
  }

  async withdraw(pod: { readonly namespace: string; readonly name: string }): Promise<void> {
    for (const pending of this.#pending.values()) {
      if (pending.pod.namespace === pod.namespace && pending.pod.name === pod.name) {
        pending.cancel.abort();
      }
    }
  }

  /** Lets pending writes finish, at most `graceMs` long; nothing is to be published after. */
  async stop(graceMs: number): Promise<void> {
    this.#hurry.abort();
    using limit = deadline(graceMs);
    const pending = [...this.#pending.values()];
    const all = Promise.allSettled(pending.map((each) => each.done));
    await untilAborted(all, limit.signal).catch(() => undefined);
    for (const each of pending) each.cancel.abort();
    await all;
  }

  #enqueue(pod: PodReference, annotations: Readonly<Record<string, string | null>>): Promise<void> {
    const key = `${pod.namespace}/${pod.name}/${pod.uid}`;
    const running = this.#pending.get(key);
    if (running !== undefined && !running.cancel.signal.aborted) {
      Object.assign(running.annotations, annotations);
      return running.done;
    }
    const finished = Promise.withResolvers<void>();
    const cancel = new AbortController();
    const pending = {
      pod,
      annotations: { ...annotations },
      done: finished.promise,
      cancel,
      hasWarned: false,
    };
    this.#pending.set(key, pending);
    void this.#write(pending, key).finally(finished.resolve);
    return pending.done;
  }

  async #write(pending: Pending, key: string): Promise<void> {
    const backoff = new Backoff(this.#options.backoff);
    try {
      while (Object.keys(pending.annotations).length > 0) {
        const taken = pending.annotations;
        pending.annotations = {};
        const outcome = await this.#attempt(pending, taken);
        if (outcome.result === "gone" || outcome.result === "dropped") return;
        if (outcome.result !== "retried") continue;
        pending.annotations = { ...taken, ...pending.annotations };
        await this.#pauseBefore(pending, Math.max(outcome.retryAfterMs, backoff.next()));
      }
    } finally {
      // In the same turn as the last look at the annotations: a later publish() starts anew.
      if (this.#pending.get(key) === pending) this.#pending.delete(key);
    }
  }

  /** Waits for the next attempt; at shutdown only briefly. */
  async #pauseBefore(pending: Pending, delayMs: number): Promise<void> {
    const hurried = this.#hurry.signal.aborted;
    const enough = hurried ? [] : [this.#hurry.signal];
    const signal = AbortSignal.any([pending.cancel.signal, ...enough]);
    await pause(hurried ? hurriedPauseMs : delayMs, signal);
  }

  async #attempt(
    pending: Pending,
    annotations: Readonly<Record<string, string | null>>,
  ): Promise<{ result: StatusWriteResult; retryAfterMs: number }> {
    const { pod, cancel } = pending;
    try {
      using _slot = await this.#slots.acquire(cancel.signal);
      await this.#patch(pod, { annotations, signal: cancel.signal });
      this.#onWrite("written");
      return { result: "written", retryAfterMs: 0 };
    } catch (thrown) {
      const error = asApiError(thrown);
      const result = cancel.signal.aborted ? "dropped" : await this.#classify(pod, error);
      this.#onWrite(result);
      this.#logFailure(pending, { result, error });
      return { result, retryAfterMs: error.retryAfterMs };
    }
  }

  #patch(
    pod: PodReference,
    write: { annotations: Readonly<Record<string, string | null>>; signal: AbortSignal },
  ): Promise<unknown> {
    return this.#options.client.json({
      method: "PATCH",
      path: `${apiPaths.pod(pod.namespace, pod.name)}/status`,
      query: { fieldManager: "plexus" },
      contentType: "application/merge-patch+json",
      accept: metadataOnly,
      body: { metadata: { uid: pod.uid, annotations: write.annotations } },
      timeoutMs: this.#options.requestTimeoutMs,
      signal: write.signal,
    });
  }

  /** A conflict may be about the UID or about anything else: the pod itself says which. */
  async #classify(pod: PodReference, error: ApiError): Promise<StatusWriteResult> {
    if (error.status === 404) return "gone";
    if (error.status === 409 || error.status === 422) {
      if (await this.#isReplaced(pod)) return "gone";
      return error.status === 409 ? "retried" : "invalid";
    }
    return error.status === 400 || error.status === 413 ? "invalid" : "retried";
  }

  async #isReplaced(pod: PodReference): Promise<boolean> {
    try {
      const answer = await this.#options.client.json({
        path: apiPaths.pod(pod.namespace, pod.name),
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
