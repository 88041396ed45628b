import { CniError } from "#cni/error.ts";
import { type ApiError, asApiError } from "#kube/api/api-error.ts";
import type { ApiClient } from "#kube/api/client.ts";
import { Backoff } from "#lib/concurrency/backoff.ts";
import { deadline, pause, untilAborted } from "#lib/concurrency/deadline.ts";
import { isJsonObject, type JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/** One object, or page of a list, to be read from the API server itself. */
interface LiveGetRequest {
  /** Kind and name for messages: `pod default/web`. */
  readonly object: string;
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly accept?: string;
}

/**
 * Reads single objects from the API server, for what a cache does not have (yet). Calls that want
 * the same object at the same time share one request.
 */
export class LiveGetter {
  readonly #client: ApiClient;
  readonly #timeoutMs: number;
  readonly #running = new Map<string, Promise<JsonObject | undefined>>();

  constructor(client: ApiClient, timeoutMs: number) {
    this.#client = client;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * The object, or undefined when the API server answers that there is none.
   * @throws CniError 11 when there is no answer within the deadline; the signal's reason
   */
  get(request: LiveGetRequest, signal?: AbortSignal): Promise<JsonObject | undefined> {
    // Objects as a whole and their metadata are not the same.
    const key = JSON.stringify([request.accept, request.path, request.query]);
    let running = this.#running.get(key);
    if (running === undefined) {
      running = this.#read(request).finally(() => this.#running.delete(key));
      this.#running.set(key, running);
    }
    return untilAborted(running, signal);
  }

  async #read(request: LiveGetRequest): Promise<JsonObject | undefined> {
    using limit = deadline(this.#timeoutMs);
    const endsAt = performance.now() + this.#timeoutMs;
    const backoff = new Backoff({ initialMs: 100, maxMs: 1000 });
    for (;;) {
      try {
        return await this.#readOnce(request, {
          signal: limit.signal,
          leftMs: endsAt - performance.now(),
        });
      } catch (thrown) {
        const error = asApiError(thrown);
        if (error.status === 404) return undefined;
        const delayMs = Math.max(error.retryAfterMs, backoff.next());
        const outOfTime = performance.now() + delayMs >= endsAt;
        if (!error.transient || outOfTime) throw this.#timeoutError(request, error);
        await pause(delayMs, limit.signal);
      }
    }
  }

  /** One attempt; half of the time left, as a half-dead connection deserves a second one. */
  async #readOnce(
    request: LiveGetRequest,
    { signal, leftMs }: { signal: AbortSignal; leftMs: number },
  ): Promise<JsonObject> {
    const { path, query, accept } = request;
    const timeoutMs = Math.max(250, Math.ceil(leftMs / 2));
    const answer = await this.#client.json(
      omitUndefined({ path, query, accept, timeoutMs, signal }),
    );
    if (!isJsonObject(answer)) throw new Error("the answer is not a JSON object");
    return answer;
  }

  #timeoutError(request: LiveGetRequest, error: ApiError): CniError {
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
