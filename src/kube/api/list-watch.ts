import { isJsonObject, type JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { ApiError, answerTooLong, apiErrorOf } from "./api-error.ts";
import type { ApiClient } from "./client.ts";

/** Which objects to list and watch. */
export interface ListWatchTarget {
  readonly client: ApiClient;
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Media types of a LIST and of a WATCH, where they are not plain JSON. */
  readonly accept?: { readonly list: string; readonly watch: string };
}

/** Limits of the requests of a {@link ListWatch}. */
export interface ListWatchTimings {
  /** For one page of a LIST, and for the headers of a WATCH. */
  readonly requestTimeoutMs: number;
  /** A watch on which nothing arrives for so long is half dead; bookmarks come every minute. */
  readonly idleMs: number;
  /** How long the server keeps a watch open: a random time between this and twice this. */
  readonly watchSeconds: number;
}

/** One page of a LIST. */
interface ListPage {
  readonly items: readonly unknown[];
  readonly version: string;
  /** The token of the next page; absent on the last one. */
  readonly next?: string;
}

/** A version that the LIST is to be no older than ("" = the newest), or the token of a next page. */
type ListStart = { readonly resourceVersion: string } | { readonly continue: string };

/** Objects of a page; fewer, by a factor each time, once a page has been too long to be read. */
const pageLimit = { initial: 500, factor: 8 };

/** The LIST and WATCH requests for one kind of objects. */
export class ListWatch {
  readonly #target: ListWatchTarget;
  readonly #timings: ListWatchTimings;
  #pageLimit = pageLimit.initial;

  constructor(target: ListWatchTarget, timings: ListWatchTimings) {
    this.#target = target;
    this.#timings = timings;
  }

  /**
   * Reads one page. One that is too long is asked for again with fewer objects, and from etcd: the
   * server's cache, which answers for version "0", gives all objects whatever the limit.
   * @throws ApiError
   */
  async list(from: ListStart, signal: AbortSignal): Promise<ListPage> {
    try {
      return await this.#page(from, signal);
    } catch (error) {
      const isTooLong = error instanceof ApiError && error.reason === answerTooLong;
      if (!isTooLong || this.#pageLimit === 1) throw error;
      this.#pageLimit = Math.ceil(this.#pageLimit / pageLimit.factor);
      return this.list("continue" in from ? from : { resourceVersion: "" }, signal);
    }
  }

  async #page(from: ListStart, signal: AbortSignal): Promise<ListPage> {
    const { client, path, query, accept } = this.#target;
    const answer = await client.json(
      omitUndefined({
        path,
        query: { ...query, limit: this.#pageLimit, ...from, ...atLeast(from) },
        accept: accept?.list,
        timeoutMs: this.#timings.requestTimeoutMs,
        signal,
      }),
    );
    const list = isJsonObject(answer) ? answer : {};
    const metadata = metadataOf(list);
    const next = metadata.continue;
    return omitUndefined({
      items: Array.isArray(list.items) ? list.items : [],
      version: String(metadata.resourceVersion ?? ""),
      next: typeof next === "string" && next !== "" ? next : undefined,
    });
  }

  /** The lines of a watch from a version on. @throws ApiError */
  watch(resourceVersion: string | undefined, signal: AbortSignal): AsyncIterable<string> {
    const { client, path, query, accept } = this.#target;
    const { watchSeconds, requestTimeoutMs, idleMs } = this.#timings;
    return client.lines(
      omitUndefined({
        path,
        query: {
          ...query,
          watch: true,
          allowWatchBookmarks: true,
          resourceVersion,
          timeoutSeconds: Math.ceil(watchSeconds * (1 + Math.random())),
        },
        accept: accept?.watch,
        timeoutMs: requestTimeoutMs,
        signal,
      }),
      { idleMs },
    );
  }
}

/** Without it a version together with a limit means exactly that version, however old. */
function atLeast(from: ListStart): { resourceVersionMatch?: "NotOlderThan" } {
  if (!("resourceVersion" in from) || from.resourceVersion === "") return {};
  return { resourceVersionMatch: "NotOlderThan" };
}

/** One line of a watch. */
interface WatchEvent {
  /** `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK`, or what a later server may send. */
  readonly type: string;
  readonly object: JsonObject;
  /** Where a watch after this event starts. */
  readonly version?: string;
}

/** @throws ApiError for an ERROR event; Error for what is no event at all */
export function parseWatchEvent(line: string, resource: string): WatchEvent {
  const event: unknown = JSON.parse(line);
  const { type, object } = isJsonObject(event) ? event : {};
  if (!isJsonObject(object)) throw new Error("a watch event without an object");
  if (type === "ERROR") {
    const status = Number(object.code ?? 500);
    throw apiErrorOf(`watch ${resource}`, { status, body: object });
  }
  const { resourceVersion } = metadataOf(object);
  const version = typeof resourceVersion === "string" ? resourceVersion : undefined;
  return omitUndefined({ type: String(type), object, version });
}

function metadataOf(object: JsonObject): JsonObject {
  return isJsonObject(object.metadata) ? object.metadata : {};
}
