import { CniError } from "#cni/error.ts";
import { type ApiError, asApiError } from "#kube/api/api-error.ts";
import type { JsonApi } from "#kube/api/json-api.ts";
import { Backoff } from "#lib/concurrency/backoff.ts";
import { deadline, pause, untilAborted } from "#lib/concurrency/deadline.ts";
import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

interface LiveGetRequest {
  /** Kind and name for messages: `pod default/web`. */
  readonly object: string;
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly accept?: string;
  /**
   * Simultaneous reads of the object share a request, so the answer may be older than the call. A
   * caller that reads because the object has changed must not share. @default false
   */
  readonly isShared?: boolean;
}

/** Reads what is in no cache. */
export class LiveGetter {
  readonly #client: JsonApi;
  readonly #timeoutMs: number;
  readonly #running = new Map<string, Promise<JsonObject | undefined>>();

  constructor(client: JsonApi, timeoutMs: number) {
    this.#client = client;
    this.#timeoutMs = timeoutMs;
  }

  /** Undefined for 404. @throws CniError 11 without an answer in time; the signal's reason */
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

  async #read(request: LiveGetRequest): Promise<JsonObject | undefined> {
    using limit = deadline(this.#timeoutMs);
    const endsAt = performance.now() + this.#timeoutMs;
    const backoff = new Backoff({ initialMs: 100, maxMs: 1000 });
    for (;;) {
      try {
        const answer = await this.#ask(request, Math.max(250, endsAt - performance.now()));
        if (!isJsonObject(answer)) throw new Error("the answer is not a JSON object");
        return answer;
      } catch (thrown) {
        const error = asApiError(thrown);
        if (error.status === 404) return undefined;
        const delayMs = Math.max(error.retryAfterMs, backoff.next());
        const isLast = performance.now() + delayMs >= endsAt;
        if (!error.transient || isLast) throw this.#failure(request, error);
        await pause(delayMs, limit.signal);
      }
    }
  }

  /**
   * Sends the request with all of the time. After half of it, sends another one beside it: the
   * connection of the first may be half-open, or the server slow. The first answer counts.
   */
  async #ask({ path, query, accept }: LiveGetRequest, timeoutMs: number): Promise<Json> {
    const answered = new AbortController();
    const { signal } = answered;
    const common = omitUndefined({ path, query, accept, signal });
    const again = async (): Promise<Json> => {
      await pause(timeoutMs / 2, signal);
      signal.throwIfAborted();
      return this.#client.json({ ...common, timeoutMs: timeoutMs / 2, isRepeated: true });
    };
    try {
      return await Promise.race([this.#client.json({ ...common, timeoutMs }), again()]);
    } finally {
      answered.abort();
    }
  }

  #failure(request: LiveGetRequest, error: ApiError): CniError {
    const advice = error.refused
      ? "check the ClusterRole and the token of Plexus's service account"
      : `check that this node reaches the API server at ${this.#client.server}`;
    return new CniError(
      "ApiUnavailable",
      `cannot read ${request.object} from the API server within ${this.#timeoutMs} ms (${error.message}); ${advice}`,
      { cause: error },
    );
  }
}
