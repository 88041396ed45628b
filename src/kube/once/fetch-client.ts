import {
  ApiError,
  apiErrorOf,
  asApiError,
  parseAnswer,
  responseTooLong,
} from "#kube/api/api-error.ts";
import type { ApiRequest, JsonApi } from "#kube/api/json-api.ts";
import type { PlainKubeconfig } from "#kube/api/plain-kubeconfig.ts";
import { deadline } from "#lib/concurrency/deadline.ts";
import { errorMessage } from "#lib/error-message.ts";
import type { JsonObject } from "#lib/json.ts";

/** As for plexusd: one object has about 10 MiB at most. */
const maxResponseBytes = 16 * 1024 * 1024;

/**
 * The API client of plexus-standalone: node:https takes longer to load under Bun than a call may
 * take. Bun's fetch() keeps the connection for the next request. Its `tls` is not known to Node.
 */
export class FetchClient implements JsonApi {
  readonly #read: () => PlainKubeconfig;
  #kubeconfig: PlainKubeconfig;

  /**
   * Reads the kubeconfig, and reads it again after a refusal by the server.
   * @throws Error when it cannot be used
   */
  constructor(read: () => PlainKubeconfig) {
    this.#read = read;
    this.#kubeconfig = read();
  }

  get server(): string {
    return this.#kubeconfig.server.origin;
  }

  async json(request: ApiRequest): Promise<JsonObject> {
    using limit = deadline(request.timeoutMs, request.signal);
    const name = `${request.method ?? "GET"} ${request.path}`;
    try {
      const response = await this.#send(request, limit.signal);
      const text = await textOf(response, name);
      if (response.ok) return parseAnswer(name, text);
      const { status, headers } = response;
      const retryAfter = headers.get("retry-after") ?? undefined;
      const location = headers.get("location") ?? undefined;
      throw apiErrorOf(name, { status, body: errorBody(text), retryAfter, location });
    } catch (error) {
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
    this.#kubeconfig = this.#read();
    return this.#sendOnce(request, signal);
  }

  #sendOnce(request: ApiRequest, signal: AbortSignal): Promise<Response> {
    const { server, tls, token } = this.#kubeconfig;
    const url = new URL(server.pathname.replace(/\/$/, "") + request.path, server);
    for (const [key, value] of Object.entries(request.query ?? {})) {
      if (value !== undefined) url.searchParams.set(key, String(value));
    }
    const init: RequestInit & { readonly tls: object } = {
      method: request.method ?? "GET",
      headers: {
        "user-agent": "plexus",
        accept: request.accept ?? "application/json",
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(request.body !== undefined && {
          "content-type": request.contentType ?? "application/json",
        }),
      },
      ...(request.body !== undefined && { body: JSON.stringify(request.body) }),
      // The credentials are for this server only.
      redirect: "manual",
      signal,
      tls,
    };
    return fetch(url, init);
  }
}

/** Bun's errors end with advice to the programmer. */
function withoutHint(error: unknown): unknown {
  const [message = "", hint] = errorMessage(error).split(" For more information, pass ");
  return hint === undefined ? error : new Error(message, { cause: error });
}

/** @throws ApiError with the reason {@link responseTooLong} */
async function textOf({ body }: Response, name: string): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.length;
    if (bytes > maxResponseBytes) {
      const message = `${name}: the response is longer than the limit of ${maxResponseBytes} bytes`;
      throw new ApiError(message, { status: 0, reason: responseTooLong });
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

/** A Status object, or the beginning of what a proxy wrote. */
function errorBody(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return { message: text.slice(0, 200) };
  }
}
