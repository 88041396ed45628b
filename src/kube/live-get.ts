import { CniError } from "#cni/error.ts";
import { ApiError, asApiError } from "#kube/api/api-error.ts";
import type { JsonApi } from "#kube/api/json-api.ts";
import { Backoff } from "#lib/concurrency/backoff.ts";
import { pause, untilAborted } from "#lib/concurrency/deadline.ts";
import type { JsonObject } from "#lib/json.ts";

export interface LiveGetRequest {
  /** Kind and name for messages: `pod default/web`. */
  readonly object: string;
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly accept?: string | undefined;
  /**
   * Simultaneous reads of the object share a request, so the answer may be older than the call. A
   * caller that reads because the object has changed must not share. @default false
   */
  readonly isShared?: boolean;
}

/** The API server's answer if it did not permit the read that failed. */
export function refusalOf(error: unknown): ApiError | undefined {
  const cause = error instanceof CniError ? error.cause : undefined;
  return cause instanceof ApiError && cause.status === 403 ? cause : undefined;
}

/** @param isRepeated whether the connection of an earlier request may be half-open */
type Send = (isRepeated: boolean) => Promise<JsonObject>;

/** Reads what is in no cache. */
export class LiveGetter {
  readonly #client: JsonApi;
  readonly #timeoutMs: number;
  readonly #rejection: string | undefined;
  readonly #running = new Map<string, Promise<JsonObject | undefined>>();

  /** @param rejection what a rejected token means, if not that the credentials are wrong */
  constructor(client: JsonApi, timeoutMs: number, rejection?: string) {
    this.#client = client;
    this.#timeoutMs = timeoutMs;
    this.#rejection = rejection;
  }

  /** Undefined if it does not exist. @throws CniError 11 without an answer in time; the signal's reason */
  get(request: LiveGetRequest, signal?: AbortSignal): Promise<JsonObject | undefined> {
    return untilAborted(request.isShared ? this.#share(request) : this.#read(request), signal);
  }

  #share(request: LiveGetRequest): Promise<JsonObject | undefined> {
    const key = JSON.stringify([request.accept, request.path, request.query]);
    let running = this.#running.get(key);
    if (running === undefined) {
      running = this.#read(request).finally(() => this.#running.delete(key));
      this.#running.set(key, running);
    }
    return running;
  }

  /**
   * Sends the request with all of the time. Others follow once it has failed, or half of the time is
   * over: its connection may be half-open, or the server slow. The first answer counts.
   */
  async #read(request: LiveGetRequest): Promise<JsonObject | undefined> {
    const { path, query, accept } = request;
    const endsAt = performance.now() + this.#timeoutMs;
    const answered = new AbortController();
    const { signal } = answered;
    const send: Send = (isRepeated) => {
      const timeoutMs = Math.max(250, endsAt - performance.now());
      return this.#client.json({ path, query, accept, timeoutMs, isRepeated, signal });
    };
    const first = send(false);
    const isFinal = first.catch((error: unknown) => {
      if (error instanceof CniError || !asApiError(error).transient) throw error;
      return new Promise<never>(() => undefined);
    });
    try {
      return await Promise.race([isFinal, this.#repeat(send, { first, endsAt, signal })]);
    } catch (thrown) {
      if (thrown instanceof CniError) throw thrown;
      const error = asApiError(thrown);
      if (error.isNotFound) return undefined;
      throw this.#failure(request, error);
    } finally {
      answered.abort();
    }
  }

  /** @throws ApiError without an answer in time, or with one that repetitions do not change */
  async #repeat(
    send: Send,
    { first, endsAt, signal }: { first: Promise<JsonObject>; endsAt: number; signal: AbortSignal },
  ): Promise<JsonObject> {
    const backoff = new Backoff({ initialMs: 100, maxMs: 1000 });
    const failed = first.then(() => undefined, asApiError);
    const halfTime = pause(this.#timeoutMs / 2, signal).then(() => undefined);
    for (let error = await Promise.race([failed, halfTime]); ; ) {
      if (error !== undefined) {
        const last = error;
        const delayMs = Math.max(last.retryAfterMs, backoff.next());
        if (!last.transient) throw last;
        if (performance.now() + delayMs >= endsAt) return first.catch(() => Promise.reject(last));
        await pause(delayMs, signal);
      }
      signal.throwIfAborted();
      try {
        return await send(error === undefined);
      } catch (thrown) {
        const last = asApiError(thrown);
        // The deadline may have cut it short, so that an answer before it says more.
        error = isLate(last) ? (error ?? last) : last;
      }
    }
  }

  #failure(request: LiveGetRequest, error: ApiError): CniError {
    const { message, status } = error;
    if (status === 401 && this.#rejection !== undefined) {
      return new CniError("DaemonUnavailable", this.#rejection, { cause: error });
    }
    const within = isLate(error) ? ` within ${this.#timeoutMs} ms` : "";
    const advice = error.advice(this.#client.server);
    return new CniError(
      "ApiUnavailable",
      `cannot read ${request.object} from the API server${within} (${message}); ${advice}`,
      { cause: error },
    );
  }
}

function isLate({ cause }: ApiError): boolean {
  return cause instanceof Error && cause.name === "TimeoutError";
}
