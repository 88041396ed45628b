import { errorMessage } from "#lib/error-message.ts";
import { isJsonObject, type JsonObject, objectOf } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

interface ApiErrorOptions {
  /** HTTP status; 0 without a usable response. */
  readonly status: number;
  /** `reason` of the Status object, such as `NotFound` or `Expired`; or one of those below. */
  readonly reason?: string;
  /** As {@link ApiError.retryAfterMs}. */
  readonly retryAfterMs?: number;
  readonly cause?: unknown;
}

/** The reasons of an error about a response that was not read to its end. */
export const responseTooLong = "ResponseTooLong";
export const responseTooSlow = "ResponseTooSlow";
/** The reason of an API server's Status object about what it does not have. */
export const notFound = "NotFound";
/** The reason of an error about a success whose content no API server sends. */
const unusableAnswer = "UnusableAnswer";

/** A request that failed: without a usable response, or with a status that is not 2xx. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;
  readonly reason: string;
  /** What the server asks for and up to as much again, so that nodes do not come back in step; or 0. */
  readonly retryAfterMs: number;

  constructor(message: string, options: ApiErrorOptions) {
    super(message, omitUndefined({ cause: options.cause }));
    this.status = options.status;
    this.reason = options.reason ?? "";
    this.retryAfterMs = options.retryAfterMs ?? 0;
  }

  /** Whether the same request may succeed later without any change. A proxy's 404 says nothing. */
  get transient(): boolean {
    const { status } = this;
    return [0, 408, 429].includes(status) || status >= 500 || (status === 404 && !this.isNotFound);
  }

  /** Whether the API server itself says that the object, or its type, does not exist. */
  get isNotFound(): boolean {
    return this.status === 404 && this.reason === notFound;
  }

  /** Whether the credentials or the RBAC rules are wrong. */
  get refused(): boolean {
    return this.status === 401 || this.status === 403;
  }

  /** What an operator can do about a failed read. `server` is the API server's address. */
  advice(server: string): string {
    if (this.#isForeign) {
      return `check the address ${server} and the proxies in front of it: an API server does not answer so`;
    }
    if (this.refused) return "check the ClusterRole and the token of Plexus's service account";
    if (this.status === 0) return `check that this node reaches the API server at ${server}`;
    return `check the load and the log of the API server at ${server}, and the load balancer in front of it`;
  }

  /** An API server explains a rejection by a Status object, unless it is overloaded or crashes. */
  get #isForeign(): boolean {
    const { status, reason, transient } = this;
    if (status === 0) return reason === unusableAnswer || reason === responseTooLong;
    return reason === "" && (status === 404 || !transient);
  }
}

/** The error for a response's status and body: a Status object, or what a proxy wrote. */
export function apiErrorOf(
  request: string,
  response: {
    status: number;
    body: unknown;
    retryAfter?: string | undefined;
    /** Where a redirection leads. */
    location?: string | undefined;
  },
): ApiError {
  const { status, location } = response;
  const body = objectOf(response.body);
  const explanation = location ? `it redirects to ${location.slice(0, 200)}` : body.message;
  const message = explanation && typeof explanation === "string" ? explanation : "no explanation";
  const isStatus = body.kind === "Status" && typeof body.reason === "string";
  const reason = isStatus ? String(body.reason) : "";
  const retryAfterMs = readRetryAfter(response.retryAfter, body);
  const text = `${request}: HTTP ${status}${reason && ` ${reason}`}: ${message}`;
  return new ApiError(text, { status, reason, retryAfterMs });
}

/**
 * The limit of a response after decompression. One object has about 10 MiB at most (1.5 MiB in etcd,
 * JSON escapes), and parsing needs a multiple of this in memory.
 */
const maxResponseBytes = 16 * 1024 * 1024;

/** Reads a response's text. @throws ApiError with the reason {@link responseTooLong} */
export async function readText(
  request: string,
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > maxResponseBytes) {
      const message = `${request}: the response is longer than the limit of ${maxResponseBytes} bytes`;
      throw new ApiError(message, { status: 0, reason: responseTooLong });
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

/** A Status object, or the beginning of what a proxy wrote. */
export function parseErrorBody(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return { message: text.slice(0, 200) };
  }
}

/** The object that a successful response contains. @throws ApiError */
export function parseAnswer(request: string, text: string): JsonObject {
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    // A proxy's page, or nothing.
  }
  if (isJsonObject(answer)) return answer;
  const found = text === "" ? "is empty" : `is not a JSON object: ${text.slice(0, 200)}`;
  throw new ApiError(`${request}: the answer ${found}`, { status: 0, reason: unusableAnswer });
}

/** Any error of a request as an {@link ApiError}. */
export function asApiError(error: unknown, request = "API request", reason = ""): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError(`${request}: ${errorMessage(error)}`, { status: 0, reason, cause: error });
}

const maxRetryAfterMs = 120_000;

/** Seconds or a date (RFC 9110 §10.2.3), else what the Status object says. */
function readRetryAfter(header: string | undefined, status: JsonObject): number {
  const asDate = (Date.parse(header ?? "") - Date.now()) / 1000;
  const given = [Number(header), asDate, Number(objectOf(status.details).retryAfterSeconds)];
  const seconds = given.find(Number.isFinite) ?? 0;
  const asked = Math.min(maxRetryAfterMs, Math.max(0, seconds * 1000));
  return asked * (1 + Math.random());
}
