import { request as httpRequest, type IncomingMessage, type RequestOptions } from "node:http";
import { request as httpsRequest } from "node:https";
import { deadline, untilAborted } from "#lib/concurrency/deadline.ts";
import type { Json } from "#lib/json.ts";
import { failureOf, isSuccess, textOf } from "./answer.ts";
import { type ApiError, asApiError } from "./api-error.ts";
import type { Credentials } from "./credentials.ts";
import { linesOf } from "./lines.ts";

/** One request to the API server. */
interface ApiRequest {
  /** @default GET */
  readonly method?: "GET" | "POST" | "PATCH";
  /** With every part of it percent-encoded where need be. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** @default application/json */
  readonly contentType?: string;
  /** @default application/json */
  readonly accept?: string;
  /** For the whole answer, or of a stream up to its headers. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/** A stream of lines is given up when nothing has arrived for this long. */
interface StreamOptions {
  readonly idleMs: number;
}

/** How one request is sent. */
interface SendOptions {
  readonly signal: AbortSignal;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * LIST, GET, WATCH, POST and PATCH over node:https. The generated API classes of the client library
 * convert every object field by field; here an answer is what JSON.parse gives.
 */
export class ApiClient {
  readonly #credentials: Credentials;
  readonly #userAgent: string;

  constructor(credentials: Credentials, userAgent = "plexus") {
    this.#credentials = credentials;
    this.#userAgent = userAgent;
  }

  /** The server's address, for messages. */
  get server(): string {
    return this.#credentials.server.origin;
  }

  /**
   * Sends a request and returns the parsed answer, which the server may compress.
   * @throws ApiError also for an answer of more than 16 MiB, with the reason `AnswerTooLong`
   */
  async json(request: ApiRequest): Promise<Json> {
    using limit = deadline(request.timeoutMs, request.signal);
    const headers = { "accept-encoding": "gzip" };
    const response = await this.#send(request, { signal: limit.signal, headers });
    try {
      return JSON.parse(await textOf(response, nameOf(request))) as Json;
    } catch (error) {
      throw this.#failed(request, { error, signal: limit.signal });
    }
  }

  /**
   * Sends a request and returns the answer line by line; leaving the loop ends the connection.
   * @throws ApiError also when nothing arrives for `idleMs`: the connection may be half dead.
   */
  async *lines(
    request: ApiRequest,
    options: StreamOptions,
  ): AsyncGenerator<string, void, undefined> {
    using limit = deadline(request.timeoutMs, request.signal);
    const response = await this.#send(request, { signal: limit.signal });
    limit[Symbol.dispose]();
    const onAbort = (): void => {
      response.destroy();
    };
    request.signal?.addEventListener("abort", onAbort, { once: true });
    const { socket } = response;
    const onIdle = (): void => {
      this.#credentials.dropIdleConnections();
      response.destroy(new Error(`nothing received for ${options.idleMs} ms`));
    };
    socket.setTimeout(options.idleMs, onIdle);
    try {
      yield* linesOf(response);
    } catch (error) {
      throw asApiError(error, nameOf(request));
    } finally {
      request.signal?.removeEventListener("abort", onAbort);
      // A stream that the server has ended leaves its connection to other requests.
      socket.setTimeout(0, onIdle);
      response.destroy();
    }
  }

  close(): void {
    this.#credentials.close();
  }

  /** The answer to a request, its headers only. A refused token is read again, once. */
  async #send(request: ApiRequest, options: SendOptions): Promise<IncomingMessage> {
    const response = await this.#sendFresh(request, options);
    if (isSuccess(response)) return response;
    const failure = await failureOf(response, nameOf(request));
    if (failure.status !== 401) throw failure;
    this.#credentials.invalidate();
    const second = await this.#sendFresh(request, options);
    if (isSuccess(second)) return second;
    throw await failureOf(second, nameOf(request));
  }

  /** Sends, and sends again when a pooled connection turned out to be closed by the server. */
  async #sendFresh(request: ApiRequest, options: SendOptions): Promise<IncomingMessage> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#sendOnce(request, options);
      } catch (error) {
        if (attempt < 3 && isStaleConnection(error)) continue;
        throw this.#failed(request, { error, signal: options.signal });
      }
    }
  }

  async #sendOnce(request: ApiRequest, { signal, headers }: SendOptions): Promise<IncomingMessage> {
    const { agent, headers: credentials } = await this.#credentials.prepare();
    const url = this.#urlOf(request);
    const body = request.body === undefined ? undefined : Buffer.from(JSON.stringify(request.body));
    const options: RequestOptions = {
      method: request.method ?? "GET",
      agent,
      signal,
      headers: {
        ...credentials,
        ...headers,
        "user-agent": this.#userAgent,
        accept: request.accept ?? "application/json",
        ...(body && {
          "content-type": request.contentType ?? "application/json",
          "content-length": body.length,
        }),
      },
    };
    const answer = new Promise<IncomingMessage>((resolve, reject) => {
      const send = url.protocol === "http:" ? httpRequest : httpsRequest;
      const outgoing = send(url, options, resolve);
      outgoing.on("error", (error) => reject(markStale(error, outgoing.reusedSocket)));
      outgoing.end(body);
    });
    // Node reports the abort of a request that waits for a connection only when it gets one.
    return untilAborted(answer, signal);
  }

  /**
   * The error of a request. Where no answer came in time, the idle connections to the same server are no
   * better than the one that has just been given up: no later request is to wait on one of them.
   */
  #failed(
    request: ApiRequest,
    { error, signal }: { error: unknown; signal: AbortSignal },
  ): ApiError {
    if (!signal.aborted) return asApiError(error, nameOf(request));
    if (isTimeout(signal.reason)) this.#credentials.dropIdleConnections();
    return asApiError(signal.reason, nameOf(request));
  }

  #urlOf(request: ApiRequest): URL {
    const base = this.#credentials.server;
    const url = new URL(base.pathname.replace(/\/$/, "") + request.path, base);
    for (const [key, value] of Object.entries(request.query ?? {})) {
      if (value !== undefined) url.searchParams.set(key, String(value));
    }
    return url;
  }
}

function nameOf(request: ApiRequest): string {
  return `${request.method ?? "GET"} ${request.path}`;
}

/** Whether it is a deadline that ended a request, and not its caller. */
function isTimeout(reason: unknown): boolean {
  return reason instanceof Error && reason.name === "TimeoutError";
}

/** The server closed a pooled connection just as it was used again: nothing has been processed. */
const staleConnections = new WeakSet<Error>();

function markStale(error: NodeJS.ErrnoException, reused: boolean): Error {
  if (reused && (error.code === "ECONNRESET" || error.code === "EPIPE"))
    staleConnections.add(error);
  return error;
}

function isStaleConnection(error: unknown): boolean {
  return error instanceof Error && staleConnections.has(error);
}
