import { apiErrorOf, asApiError } from "#kube/api/api-error.ts";
import type { ApiClient } from "#kube/api/client.ts";
import { type Answer, failure, type StoreRequest } from "#kube/testing/object-store.ts";
import type { RequestOutcome } from "../world/faults.ts";
import type { Process } from "../world/schedule.ts";
import { world } from "../world/world.ts";
import type { ApiServer } from "./api-server.ts";
import type { WriteQueue } from "./write-queue.ts";

/** A request as the code of Plexus makes it. */
export type ApiRequest = Parameters<ApiClient["json"]>[0];

/** How the server processes a request; an answer that is no success becomes an error. */
export type Processing<T> = (server: ApiServer, request: StoreRequest) => T | Answer;

const overloaded = failure(429, "TooManyRequests", "the server is overloaded");
/** What the server answers instead of processing the request. */
const refusals: Partial<Record<RequestOutcome, Answer>> = {
  "bad request": failure(400, "BadRequest", "admission webhook denied the request"),
  forbidden: failure(403, "Forbidden", "admission webhook denied the request"),
  invalid: failure(422, "Invalid", "admission webhook denied the request"),
  "too many requests": overloaded,
  "internal error": failure(500, "InternalError", "etcdserver: leader changed"),
  unavailable: failure(503, "ServiceUnavailable", "the server is shutting down"),
};
/** With HTTP 429. */
const retryAfterUs = 5e6;
const conflict = failure(409, "Conflict", "the object has been modified");

/**
 * Sends a request and waits for the answer. The server processes it at a moment in between, also
 * when the client does not wait any more.
 * @throws ApiError as the real client does
 */
export function exchange<T>(request: ApiRequest, processing: Processing<T>): Promise<T> {
  const { schedule, faults, random, api } = world();
  const owner = schedule.current;
  // Code of a process that was killed waits forever.
  if (!owner.isAlive) return new Promise(() => undefined);
  const reply = new Reply<T>(request);
  if (request.signal?.aborted === true) return reply.promise;
  const { outcome, delayUs } = faults.request(request.method ?? "GET", request.path);
  const timeoutUs = request.timeoutMs * 1000;
  const isAnswered = delayUs < timeoutUs && !/lost|late/.test(outcome);
  const queue = (request.method ?? "GET") === "GET" ? undefined : api.writes;
  if (!isAnswered || queue !== undefined)
    schedule.at(timeoutUs, () => reply.fail(timeoutOf(request)));
  const arrivalUs = outcome === "late" ? timeoutUs + delayUs : random.integer(0, delayUs);
  heedRetryAfter(request, owner);
  const answer = (result: T | Answer | Error): void => {
    const { epoch } = api;
    // Only the answer shows that a text which a webhook has changed is one's own.
    const isRecognized = isAnswered || !api.changesStatuses;
    const isWritten = request.method === "PATCH" && (result as Partial<Answer>).status === 200;
    if (isWritten && isStatus(request) && isRecognized) noteWritten(request, owner);
    world().note(() => `api: ${owner.name}: ${nameOf(request)}: ${outcome}, ${describe(result)}`);
    if (!isAnswered) return;
    const settle = (): void => {
      const heard = api.epoch === epoch ? result : hangUp();
      if (isFailure(heard) && heard.status === 429)
        notBefore.set(owner, { of: contentOf(request), atUs: schedule.nowUs + retryAfterUs });
      reply.settle(heard);
    };
    schedule.at(delayUs - arrivalUs, settle, owner);
  };
  const serve = (): void => answer(arrived(request, { outcome, processing }));
  const arrive = (): void => {
    // The server hears of a client's end.
    if (outcome === "late" && !owner.isAlive) return;
    if (queue === undefined) serve();
    else enter(queue, request, { serve: () => reply.isAwaited && serve(), refuse: answer });
  };
  schedule.at(arrivalUs, arrive, schedule.outside);
  return reply.promise;
}

/** A write arrives at a busy server. What its client does not wait for any more is not carried out. */
function enter(
  queue: WriteQueue,
  request: ApiRequest,
  { serve, refuse }: { serve: () => void; refuse: (answer: Answer) => void },
): void {
  const tooMany = isStatus(request) ? queue.noteStatus(contentOf(request)) : undefined;
  if (tooMany !== undefined) world().observer.writtenTooOften(tooMany);
  if (!queue.take(serve)) refuse(overloaded);
}

/** A slice is written again with each change while its watch is silent: only statuses are counted. */
function isStatus({ path }: ApiRequest): boolean {
  return path.includes("/pods/");
}

/** What the server has asked of processes with HTTP 429, last. One that was cut off has not heard it. */
const notBefore = new WeakMap<Process, { readonly of: string; readonly atUs: number }>();

/** How often each process has written each status since another component wrote one or a plugin attached something. */
let writtenBy = new WeakMap<Process, Map<string, number>>();

/** Another component has changed a status, or a network is attached, which may bring an earlier status back. */
export function statusChanged(): void {
  writtenBy = new WeakMap();
}

/** A status may come back with the networks that it had, and one answer may be lost. */
const writtenMax = 3;

function noteWritten(request: ApiRequest, owner: Process): void {
  const counts = writtenBy.get(owner) ?? new Map<string, number>();
  const count = (counts.get(contentOf(request)) ?? 0) + 1;
  writtenBy.set(owner, counts.set(contentOf(request), count));
  if (count <= writtenMax) return;
  world().observer.writtenTooOften(`${owner.name}: ${nameOf(request)}, ${count} times`);
}

function heedRetryAfter(request: ApiRequest, owner: Process): void {
  const asked = notBefore.get(owner);
  if (asked === undefined || request.method !== "PATCH") return;
  if (asked.of === contentOf(request) && world().schedule.nowUs < asked.atUs)
    world().observer.requestedTooEarly(
      `${owner.name}: ${nameOf(request)}`,
      asked.atUs - retryAfterUs,
    );
}

/** Another sandbox's status is no repetition. */
function contentOf({ path, body }: ApiRequest): string {
  return path + JSON.stringify(body);
}

/** What the client waits for: an answer, or the abort of its signal. */
class Reply<T> {
  readonly promise: Promise<T>;
  isAwaited = true;
  readonly #request: ApiRequest;
  #resolve: (value: T) => void = () => undefined;
  #reject: (error: Error) => void = () => undefined;
  readonly #onAbort = (): void => this.fail(this.#request.signal?.reason);

  constructor(request: ApiRequest) {
    this.#request = request;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    const { signal } = request;
    if (signal?.aborted === true) this.#onAbort();
    else signal?.addEventListener("abort", this.#onAbort, { once: true });
  }

  settle(result: T | Answer | Error): void {
    if (result instanceof Error) this.fail(result);
    else if (isFailure(result)) this.fail(errorOf(this.#request, result));
    else {
      this.#request.signal?.removeEventListener("abort", this.#onAbort);
      this.#resolve(result as T);
    }
  }

  fail(error: unknown): void {
    this.isAwaited = false;
    this.#request.signal?.removeEventListener("abort", this.#onAbort);
    this.#reject(asApiError(error, nameOf(this.#request)));
  }
}

/** What the server makes of a request that has arrived. */
function arrived<T>(
  request: ApiRequest,
  { outcome, processing }: { outcome: RequestOutcome; processing: Processing<T> },
): T | Answer | Error {
  const server = world().api;
  const { method = "GET", path, query = {}, body, accept } = request;
  if (server.isDown || outcome === "refused") return new Error("connect ECONNREFUSED");
  if (outcome === "request lost") return new Error("lost");
  const refusal = outcome === "conflict" && method === "PATCH" ? conflict : refusals[outcome];
  if (refusal !== undefined) return refusal;
  const isPartial = accept?.includes("as=PartialObjectMetadata") ?? false;
  const readVersion = outcome === "old" ? earlierVersion : undefined;
  const result = processing(server, { method, path, query, body, isPartial, readVersion });
  return outcome === "broken" ? hangUp() : result;
}

/** A version that the server remembers, from the given one on. */
function earlierVersion(from: number): number {
  return world().random.integer(from, world().api.versions.current);
}

function isFailure(result: unknown): result is Answer {
  const { status } = result as Partial<Answer>;
  return status !== undefined && status >= 300;
}

function errorOf(request: ApiRequest, failed: Answer): Error {
  const retryAfter = failed.status === 429 ? `${retryAfterUs / 1e6}` : undefined;
  return apiErrorOf(nameOf(request), { ...failed, retryAfter });
}

function describe(result: unknown): string {
  if (result instanceof Error) return result.message;
  return `${(result as Partial<Answer>).status ?? "watching"}`;
}

function hangUp(): Error {
  return new Error("socket hang up");
}

function timeoutOf({ timeoutMs }: ApiRequest): Error {
  return new DOMException(`no answer within ${timeoutMs} ms`, "TimeoutError");
}

/** A request in messages. */
export function nameOf({ method = "GET", path }: ApiRequest): string {
  return `${method} ${path}`;
}
