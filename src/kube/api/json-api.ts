import type { JsonObject } from "#lib/json.ts";

/** A request to the API server. */
export interface ApiRequest {
  /** @default GET */
  readonly method?: "GET" | "POST" | "PATCH" | "DELETE";
  /** Percent-encoded. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>> | undefined;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** @default application/json */
  readonly contentType?: string;
  /** @default application/json */
  readonly accept?: string | undefined;
  /** For the whole response; of a stream, up to its headers. */
  readonly timeoutMs: number;
  /** The same request has got no answer: idle connections, which may be as dead, are not used. */
  readonly isRepeated?: boolean;
  readonly signal?: AbortSignal;
  /** Sent instead of the client's credentials. */
  readonly token?: string;
}

/** What messages call a request. */
export function nameOf({ method = "GET", path }: ApiRequest): string {
  return `${method} ${path}`;
}

/** The path and query of a request, behind the path of a server's URL. */
export function pathOf(server: URL, { path, query = {} }: ApiRequest): string {
  const pairs = Object.entries(query).flatMap(([key, value]) =>
    value === undefined ? [] : [`${key}=${encodeURIComponent(value)}`],
  );
  const prefix = server.pathname.replace(/\/$/, "");
  return `${prefix}${path}${pairs.length === 0 ? "" : `?${pairs.join("&")}`}`;
}

/** The headers of a request; `ownToken` is the client's. */
export function headersOf(request: ApiRequest, ownToken?: string): Record<string, string> {
  const { accept = "application/json", contentType = "application/json" } = request;
  const { token = ownToken } = request;
  const type = request.body === undefined ? {} : { "content-type": contentType };
  const bearer = token === undefined ? {} : { authorization: `Bearer ${token}` };
  return { "user-agent": "plexus", accept, ...type, ...bearer };
}

/** The requests that a call needs. */
export interface JsonApi {
  /** The server's address, for messages. */
  readonly server: string;
  /** Sends a request and returns the response. @throws ApiError, `ResponseTooLong` above 16 MiB */
  json(request: ApiRequest): Promise<JsonObject>;
  /** Sends a change, and skips the response: the changed object. @throws ApiError */
  write(request: ApiRequest): Promise<void>;
  close(): void;
}
