import { errorMessage } from "#lib/error-message.ts";
import { isJsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/** The API server's answer, or that there was none. */
interface ApiErrorOptions {
  /** HTTP status; 0 when there was no answer. */
  readonly status: number;
  /** `reason` of the Status object, e.g. `NotFound`, `Expired`; or {@link answerTooLong}. */
  readonly reason?: string;
  /** From the Retry-After header. */
  readonly retryAfterMs?: number;
  readonly cause?: unknown;
}

/** The reason of an answer that was not read to its end. */
export const answerTooLong = "AnswerTooLong";

/** A request that the API server did not answer with success. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;
  readonly reason: string;
  readonly retryAfterMs: number;

  constructor(message: string, options: ApiErrorOptions) {
    super(message, omitUndefined({ cause: options.cause }));
    this.status = options.status;
    this.reason = options.reason ?? "";
    this.retryAfterMs = options.retryAfterMs ?? 0;
  }

  /** Whether the same request may succeed later with nobody changing anything. */
  get transient(): boolean {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500;
  }

  /** Whether it is the credentials or the RBAC rules that are wrong. */
  get refused(): boolean {
    return this.status === 401 || this.status === 403;
  }
}

/** An {@link ApiError} from an answer's status and body: a Status object, or whatever a proxy wrote. */
export function apiErrorOf(
  request: string,
  answer: { status: number; body: unknown; retryAfter?: string | undefined },
): ApiError {
  const status = isJsonObject(answer.body) ? answer.body : {};
  const message = typeof status.message === "string" ? status.message : "no further explanation";
  const reason = typeof status.reason === "string" ? status.reason : "";
  return new ApiError(`${request}: HTTP ${answer.status}${reason && ` ${reason}`}: ${message}`, {
    status: answer.status,
    reason,
    retryAfterMs: retryAfterMs(answer.retryAfter, status),
  });
}

/** Any error of a request as an {@link ApiError}. */
export function asApiError(error: unknown, request = "API request"): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError(`${request}: ${errorMessage(error)}`, { status: 0, cause: error });
}

const longestRetryAfterMs = 120_000;

function retryAfterMs(
  header: string | undefined,
  status: Readonly<Record<string, unknown>>,
): number {
  const details = isJsonObject(status.details) ? status.details : {};
  const seconds = Number(header ?? details.retryAfterSeconds ?? 0);
  return Number.isFinite(seconds) ? Math.min(longestRetryAfterMs, Math.max(0, seconds * 1000)) : 0;
}
