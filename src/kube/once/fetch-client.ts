import { CniError } from "#cni/error.ts";
import { absenceOf } from "#kube/api/absence.ts";
import {
  apiErrorOf,
  asApiError,
  parseAnswer,
  parseErrorBody,
  readText,
} from "#kube/api/api-error.ts";
import { type ApiRequest, headersOf, type JsonApi, nameOf, pathOf } from "#kube/api/json-api.ts";
import type { PlainKubeconfig } from "#kube/api/plain-kubeconfig.ts";
import { deadline } from "#lib/concurrency/deadline.ts";
import { errorMessage } from "#lib/error-message.ts";
import type { JsonObject } from "#lib/json.ts";

/**
 * The API client of plexus-standalone: node:https takes longer to load under Bun than a call may
 * take. Bun's fetch() keeps connections for further requests and calls. Its `tls` is not known to Node.
 */
export class FetchClient implements JsonApi {
  readonly #read: () => PlainKubeconfig;
  #known: PlainKubeconfig | undefined;
  /** Once a request was repeated, idle connections are not used: they may be as dead as its one. */
  #mayReuse = true;

  /** `read` is called for the first request, and again after a refusal by the server. */
  constructor(read: () => PlainKubeconfig) {
    this.#read = read;
  }

  get server(): string {
    return this.#kubeconfig().server.origin;
  }

  /** A DEL needs none, so it does not fail without it. @throws CniError 11 */
  #kubeconfig(): PlainKubeconfig {
    try {
      this.#known ??= this.#read();
      return this.#known;
    } catch (cause) {
      throw new CniError("ApiUnavailable", errorMessage(cause), { cause });
    }
  }

  /** @throws ApiError; CniError 11 when the kubeconfig cannot be used */
  async json(request: ApiRequest): Promise<JsonObject> {
    using limit = deadline(request.timeoutMs, request.signal);
    const name = nameOf(request);
    try {
      const response = await this.#send(request, limit.signal);
      const text = await readText(name, response.body ?? []);
      if (response.ok) return parseAnswer(name, text);
      const { status, headers } = response;
      const retryAfter = headers.get("retry-after") ?? undefined;
      const location = headers.get("location") ?? undefined;
      const body = parseErrorBody(text);
      const failure = apiErrorOf(name, { status, body, retryAfter, location });
      throw await absenceOf(this, { ...request, signal: limit.signal }, failure);
    } catch (error) {
      if (error instanceof CniError) throw error;
      throw asApiError(limit.signal.aborted ? limit.signal.reason : withoutHint(error), name);
    }
  }

  async write(request: ApiRequest): Promise<void> {
    await this.json(request);
  }

  close(): void {
    // The process ends.
  }

  /** Reads the kubeconfig again, once, when the server rejects the credentials. */
  async #send(request: ApiRequest, signal: AbortSignal): Promise<Response> {
    const response = await this.#sendOnce(request, signal);
    if (response.status !== 401) return response;
    this.#known = undefined;
    return this.#sendOnce(request, signal);
  }

  #sendOnce(request: ApiRequest, signal: AbortSignal): Promise<Response> {
    const { server, tls, token } = this.#kubeconfig();
    if (request.isRepeated) this.#mayReuse = false;
    const init: RequestInit & { readonly tls: object } = {
      method: request.method ?? "GET",
      headers: headersOf(request, token),
      ...(request.body !== undefined && { body: JSON.stringify(request.body) }),
      // The credentials are for this server only.
      redirect: "manual",
      keepalive: this.#mayReuse,
      signal,
      tls,
    };
    return fetch(server.origin + pathOf(server, request), init);
  }
}

/** Bun's errors end with advice to the programmer. */
function withoutHint(error: unknown): unknown {
  const [message = "", hint] = errorMessage(error).split(" For more information, pass ");
  return hint === undefined ? error : new Error(message, { cause: error });
}
