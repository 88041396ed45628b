import { apiErrorOf, asApiError, responseTooLong, responseTooSlow } from "#kube/api/api-error.ts";
import type { ApiClient } from "#kube/api/client.ts";
import type { BackoffOptions } from "#lib/concurrency/backoff.ts";
import { isJsonObject, type JsonObject, objectOf } from "#lib/json.ts";

/** Which objects to list and watch. */
export interface ListWatchTarget {
  readonly client: ApiClient;
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Media types of a LIST and of a WATCH, if not plain JSON. */
  readonly accept?: { readonly list: string; readonly watch: string };
}

/** Times of a watch. */
export interface WatchTimings {
  readonly backoff: BackoffOptions;
  /** For one page of a LIST, and for the headers of a WATCH. */
  readonly requestTimeoutMs: number;
  /** A watch that is silent for this long is half-open; bookmarks come every minute. After twice
   * this, whatever ended the watches in between, its version may be one of before a restore of etcd. */
  readonly idleMs: number;
  /** How long the server keeps a watch open: a random time between this and twice this. */
  readonly watchSeconds: number;
  /** How often to look for a resource type that does not exist yet (a CRD). */
  readonly absentMs: number;
}

export const defaultWatchTimings: WatchTimings = {
  backoff: { initialMs: 500, maxMs: 30_000 },
  requestTimeoutMs: 30_000,
  idleMs: 90_000,
  watchSeconds: 300,
  absentMs: 15_000,
};

interface ListPage {
  readonly items: readonly unknown[];
  readonly version: string;
  /** Where the next page starts; undefined on the last one. */
  readonly next: ListStart | undefined;
}

/** The oldest acceptable version ("": only the newest), or the token of a next page. */
type ListStart = ({ readonly resourceVersion: string } | { readonly continue: string }) & {
  /** @default 500 */
  readonly limit?: number;
};

/** By how much the next page is smaller when one was too long to read. */
const limitFactor = 8;

/** The LIST and WATCH requests for one resource type. */
export class ListWatch {
  readonly #target: ListWatchTarget;
  readonly #timings: WatchTimings;

  constructor(target: ListWatchTarget, timings: WatchTimings) {
    this.#target = target;
    this.#timings = timings;
  }

  /**
   * Reads one page. Requests a page that is too long to be read in time again, smaller and from
   * etcd: the server's cache, which answers for version "0", ignores the limit.
   * @throws ApiError
   */
  async list(from: ListStart, signal: AbortSignal): Promise<ListPage> {
    const { limit = 500 } = from;
    try {
      return await this.#page({ ...from, limit }, signal);
    } catch (error) {
      const { reason } = asApiError(error);
      const isTooLong = reason === responseTooLong || reason === responseTooSlow;
      if (!isTooLong || limit === 1) throw error;
      const again = "continue" in from ? from : { resourceVersion: "" };
      return this.list({ ...again, limit: Math.ceil(limit / limitFactor) }, signal);
    }
  }

  async #page({ limit, ...from }: Required<ListStart>, signal: AbortSignal): Promise<ListPage> {
    const { client, path, query, accept } = this.#target;
    // Without NotOlderThan, a version together with a limit means exactly that version.
    const hasVersion = "resourceVersion" in from && from.resourceVersion !== "";
    const match = hasVersion ? { resourceVersionMatch: "NotOlderThan" } : {};
    const list = await client.json({
      path,
      query: { ...query, limit, ...from, ...match },
      accept: accept?.list,
      timeoutMs: this.#timings.requestTimeoutMs,
      signal,
    });
    const { resourceVersion, continue: next } = objectOf(list.metadata);
    return {
      items: Array.isArray(list.items) ? list.items : [],
      version: String(resourceVersion ?? ""),
      next: typeof next === "string" && next !== "" ? { continue: next, limit } : undefined,
    };
  }

  /** The lines of a watch from a version on, after `onOpen` once it has begun. @throws ApiError */
  watch(
    resourceVersion: string | undefined,
    { signal, onOpen }: { readonly signal: AbortSignal; readonly onOpen: () => void },
  ): AsyncIterable<string> {
    const { client, path, query, accept } = this.#target;
    const { watchSeconds, requestTimeoutMs, idleMs } = this.#timings;
    const timeoutSeconds = Math.ceil(watchSeconds * (1 + Math.random()));
    const watch = { watch: true, allowWatchBookmarks: true, resourceVersion, timeoutSeconds };
    const request = { path, query: { ...query, ...watch }, accept: accept?.watch };
    return client.lines({ ...request, timeoutMs: requestTimeoutMs, signal }, { idleMs, onOpen });
  }
}

interface WatchEvent {
  /** `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK`, or one of a later server. */
  readonly type: string;
  readonly object: JsonObject;
  /** Where a watch after this event starts. */
  readonly version: string | undefined;
}

/** @throws ApiError for an ERROR event; Error for a line that is not an event */
export function parseWatchEvent(line: string, resource: string): WatchEvent {
  const event: unknown = JSON.parse(line);
  const { type, object } = objectOf(event);
  if (!isJsonObject(object)) throw new Error("watch event has no object");
  if (type === "ERROR") {
    const status = Number(object.code ?? 500);
    throw apiErrorOf(`watch ${resource}`, { status, body: object });
  }
  const { resourceVersion } = objectOf(object.metadata);
  const version = typeof resourceVersion === "string" ? resourceVersion : undefined;
  return { type: String(type), object, version };
}
