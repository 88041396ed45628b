import { request as httpRequest, type IncomingMessage, type RequestOptions } from "node:http";
import { request as httpsRequest } from "node:https";
import { urlToHttpOptions } from "node:url";
import { deadline, untilAborted } from "#lib/concurrency/deadline.ts";
import type { JsonObject } from "#lib/json.ts";
import { absenceOf } from "./absence.ts";
import { type ApiError, asApiError, parseAnswer, responseTooSlow } from "./api-error.ts";
import type { RereadCredentials } from "./credentials.ts";
import { type ApiRequest, headersOf, type JsonApi, nameOf, pathOf } from "./json-api.ts";
import { failureOf, linesOf, skipped, textOf } from "./response.ts";

interface SendOptions {
  readonly signal: AbortSignal;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Requests over node:https: the API classes of Kubernetes' client library convert objects field by field. */
export class ApiClient implements JsonApi {
  readonly #credentials: RereadCredentials;

  constructor(credentials: RereadCredentials) {
    this.#credentials = credentials;
  }

  get server(): string {
    return this.#credentials.server.origin;
  }

  async json(request: ApiRequest): Promise<JsonObject> {
    if (request.isRepeated) this.#credentials.dropIdleConnections();
    const name = nameOf(request);
    const text = await this.#exchange(request, (response) => textOf(response, name), {
      "accept-encoding": "gzip",
    });
    return parseAnswer(name, text);
  }

  write(request: ApiRequest): Promise<void> {
    return this.#exchange(request, skipped);
  }

  /**
   * Sends a request and returns the response line by line, after `onOpen` once it has begun; leaving
   * the loop ends the connection.
   * @throws ApiError, also when nothing arrives for `idleMs`: the connection may be half-open
   */
  async *lines(
    request: ApiRequest,
    { idleMs, onOpen }: { readonly idleMs: number; readonly onOpen?: () => void },
  ): AsyncGenerator<string, void, undefined> {
    using limit = deadline(request.timeoutMs, request.signal);
    const response = await this.#send(request, { signal: limit.signal });
    limit[Symbol.dispose]();
    onOpen?.();
    const onAbort = (): void => {
      response.destroy();
    };
    request.signal?.addEventListener("abort", onAbort, { once: true });
    const { socket } = response;
    const onIdle = (): void => {
      this.#credentials.dropIdleConnections();
      response.destroy(new Error(`nothing received for ${idleMs} ms`));
    };
    socket.setTimeout(idleMs, onIdle);
    try {
      yield* linesOf(response);
    } catch (error) {
      throw asApiError(error, nameOf(request));
    } finally {
      request.signal?.removeEventListener("abort", onAbort);
      // The connection of a stream that the server ended is reused.
      socket.setTimeout(0, onIdle);
      response.destroy();
    }
  }

  close(): void {
    this.#credentials.close();
  }

  async #exchange<T>(
    request: ApiRequest,
    read: (response: IncomingMessage) => Promise<T>,
    headers: SendOptions["headers"] = {},
  ): Promise<T> {
    using limit = deadline(request.timeoutMs, request.signal);
    const { signal } = limit;
    const response = await this.#send(request, { signal, headers });
    try {
      return await read(response);
    } catch (error) {
      throw this.#failed(request, { error, signal, reason: responseTooSlow });
    }
  }

  /**
   * Returns the response with its headers. Reads the credentials again, once, when they are refused.
   * Sends again when the server had closed a pooled connection: it has processed nothing.
   */
  async #send(request: ApiRequest, options: SendOptions): Promise<IncomingMessage> {
    let isRefused = false;
    for (let closed = 0; ; ) {
      let response: IncomingMessage;
      try {
        response = await this.#sendOnce(request, options);
      } catch (error) {
        if (error instanceof StaleConnectionError && closed++ < 2) continue;
        throw this.#failed(request, { error, signal: options.signal });
      }
      const failure = await failureOf(response, nameOf(request));
      if (failure === undefined) return response;
      if (failure.status !== 401 || isRefused || request.token !== undefined) {
        throw await absenceOf(this, { ...request, signal: options.signal }, failure);
      }
      this.#credentials.invalidate();
      isRefused = true;
    }
  }

  async #sendOnce(request: ApiRequest, { signal, headers }: SendOptions): Promise<IncomingMessage> {
    const { server, agent, token } = await untilAborted(this.#credentials.prepare(), signal);
    const body = request.body === undefined ? undefined : Buffer.from(JSON.stringify(request.body));
    const options: RequestOptions = {
      ...urlToHttpOptions(server),
      method: request.method ?? "GET",
      path: pathOf(server, request),
      agent,
      headers: {
        ...headers,
        ...headersOf(request, token),
        ...(body && { "content-length": body.length }),
      },
    };
    signal.throwIfAborted();
    return new Promise<IncomingMessage>((resolve, reject) => {
      const send = options.protocol === "http:" ? httpRequest : httpsRequest;
      const outgoing = send(options, resolve);
      outgoing.on("error", (error: NodeJS.ErrnoException) => {
        const isClosed = error.code === "ECONNRESET" || error.code === "EPIPE";
        const isStale = outgoing.reusedSocket && isClosed;
        reject(isStale ? new StaleConnectionError(error.message, { cause: error }) : error);
      });
      // Given to Node, the signal would take more steps, and fire late for a request that waits.
      const onAbort = (): void => {
        reject(signal.reason);
        outgoing.destroy();
      };
      signal.addEventListener("abort", onAbort, { once: true });
      outgoing.end(body);
    });
  }

  /** After a timeout, also closes the server's idle connections: they are likely as dead. */
  #failed(
    request: ApiRequest,
    { error, signal, reason }: { error: unknown; signal: AbortSignal; reason?: string },
  ): ApiError {
    const name = nameOf(request);
    if (!signal.aborted) return asApiError(error, name);
    const cause: unknown = signal.reason;
    const isTimeout = cause instanceof Error && cause.name === "TimeoutError";
    if (!isTimeout) return asApiError(cause, name);
    this.#credentials.dropIdleConnections();
    return asApiError(cause, name, reason);
  }
}

/** The server closed a pooled connection while it was reused. */
class StaleConnectionError extends Error {}
