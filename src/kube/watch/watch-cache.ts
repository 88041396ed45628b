import { CniError } from "#cni/error.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { type ApiError, asApiError } from "#kube/api/api-error.ts";
import type { KubeMetrics } from "#kube/metric-labels.ts";
import { keyOfObject } from "#kube/objects.ts";
import { Backoff } from "#lib/concurrency/backoff.ts";
import { pause } from "#lib/concurrency/deadline.ts";
import { type JsonObject, objectOf } from "#lib/json.ts";
import {
  defaultWatchTimings,
  ListWatch,
  type ListWatchTarget,
  parseWatchEvent,
  type WatchTimings,
} from "./list-watch.ts";
import { restartReason, WatchPosition } from "./watch-position.ts";

/** A restart of the API server makes all nodes LIST: a hundred a second. */
const listMs = 10;
/** Of a cluster whose size is not known. */
const defaultNodes = 50;

/** Gets each object that was delivered, or undefined when it is gone, with its key. */
export type WatchListener<T> = (key: string, value: T | undefined) => void;

/** Gets objects as the server sends them, also invalid ones. */
export interface ObjectFollower {
  delivered(key: string, object: JsonObject): void;
  gone(key: string): void;
  /** The server has these objects and no others, perhaps because it does not know their type. */
  listed(keys: ReadonlySet<string>, isServed: boolean): void;
}

interface WatchCacheOptions<T> extends ListWatchTarget {
  /** Plural name, for logs and metrics. */
  readonly resource: string;
  /** The part of an object that is used. @throws CniError when the object is invalid */
  readonly decode: (object: unknown) => T;
  /** Whether its absence means that there are none, for custom resources. */
  readonly mayBeAbsent?: boolean;
  readonly follower?: ObjectFollower | undefined;
  readonly logger: Logger;
  readonly timings?: Partial<WatchTimings>;
  readonly metrics?: Partial<KubeMetrics>;
}

/**
 * All objects of one resource type, kept up to date by LIST and WATCH: the reflector of client-go. A
 * watch that ends is resumed from the last resource version. When that has expired, a new LIST
 * follows; until it is complete, the cache keeps its content.
 */
export class WatchCache<T> {
  readonly #options: WatchCacheOptions<T>;
  readonly #timings: WatchTimings;
  readonly #requests: ListWatch;
  readonly #backoff: Backoff;
  readonly #position = new WatchPosition();
  readonly #stop = new AbortController();
  #objects = new Map<string, T>();
  #synced = false;
  #isServed = true;
  #failure: ApiError | undefined;
  /** When the server last said anything about the objects. */
  #heardAt = 0;
  /** Expired versions in a row, without an event in between. */
  #expiries = 0;
  #nodes = defaultNodes;
  readonly #listeners: WatchListener<T>[] = [];

  constructor(options: WatchCacheOptions<T>) {
    this.#options = options;
    this.#timings = { ...defaultWatchTimings, ...options.timings };
    this.#requests = new ListWatch(options, this.#timings);
    this.#backoff = new Backoff(this.#timings.backoff);
    // At once, so that alerts see a cache that is never listed.
    options.metrics?.cacheSynced?.(options.resource, false);
  }

  /** The object with the key `NAMESPACE/NAME`. */
  get(key: string): T | undefined {
    return this.#objects.get(key);
  }

  values(): Iterable<T> {
    return this.#objects.values();
  }

  /** Calls the listener for every change from now on, and for every object of a LIST. */
  listen(listener: WatchListener<T>): void {
    this.#listeners.push(listener);
  }

  /** Sets how many nodes LIST when a version has expired: the more, the later at random. */
  spreadOver(nodes: number): void {
    this.#nodes = Math.max(defaultNodes, nodes);
  }

  /** Whether a LIST was complete. */
  get synced(): boolean {
    return this.#synced;
  }

  /** Whether the server knows the resource type, as of the last request. */
  get isServed(): boolean {
    return this.#isServed;
  }

  /** The last error, until a request succeeds. */
  get failure(): ApiError | undefined {
    return this.#failure;
  }

  /** Lists and watches until {@link WatchCache.stop}; never rejects. */
  async run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        if (this.#position.watchFrom === undefined) await this.#list();
        await this.#watch();
      } catch (thrown) {
        if (signal.aborted) return;
        const error = asApiError(thrown, `watch ${this.#options.resource}`);
        await pause(this.#restartDelay(error), signal);
      }
    }
  }

  stop(): void {
    this.#stop.abort();
  }

  async #list(): Promise<void> {
    const objects = new Map<string, T>();
    const keys = new Set<string>();
    let page: Awaited<ReturnType<ListWatch["list"]>> | undefined;
    do {
      const from = page?.next ?? { resourceVersion: this.#position.listFrom };
      page = await this.#requests.list(from, this.#stop.signal);
      for (const item of page.items) {
        const key = this.#put(objects, item);
        if (key !== undefined) keys.add(key);
      }
    } while (page.next !== undefined);
    const before = this.#objects;
    this.#objects = objects;
    this.#isServed = true;
    this.#options.follower?.listed(keys, true);
    this.#position.reached(page.version);
    this.#setSynced();
    for (const key of new Set([...before.keys(), ...objects.keys()])) this.#notify(key);
    const { resource, logger } = this.#options;
    logger.info({ resource, objects: objects.size }, "API objects listed");
  }

  async #watch(): Promise<void> {
    let openedAt = Infinity;
    const onOpen = (): void => {
      this.#failure = undefined;
      openedAt = performance.now();
    };
    const { signal } = this.#stop;
    let isHealthy = false;
    try {
      for await (const line of this.#requests.watch(this.#position.watchFrom, { signal, onOpen })) {
        this.#apply(line);
        isHealthy = true;
        this.#setHeard();
      }
    } finally {
      // A proxy may end watches that are idle: the cache backs off only if that happens at once.
      isHealthy ||= performance.now() - openedAt >= 1000;
      if (isHealthy) {
        this.#expiries = 0;
        this.#backoff.reset();
      }
      const isSilent = performance.now() - this.#heardAt > 2 * this.#timings.idleMs;
      if (isSilent && openedAt < Infinity) this.#position.forget();
    }
    if (!isHealthy) throw new Error("the server closed the watch at once");
  }

  /** The server listed the objects, or sent an event or a bookmark. */
  #setHeard(): void {
    this.#failure = undefined;
    this.#heardAt = performance.now();
    this.#options.metrics?.cacheUpdated?.(this.#options.resource);
  }

  #apply(line: string): void {
    const { type, object, version } = parseWatchEvent(line, this.#options.resource);
    const key = keyOfObject(object);
    if (type === "ADDED" || type === "MODIFIED") this.#put(this.#objects, object);
    else if (type === "DELETED" && key !== undefined) {
      this.#objects.delete(key);
      this.#options.follower?.gone(key);
    }
    if (key !== undefined) this.#notify(key);
    if (version !== undefined) this.#position.reached(version);
  }

  #notify(key: string): void {
    for (const listener of this.#listeners) listener(key, this.#objects.get(key));
  }

  /** Returns the object's key. An invalid object is removed, so that a call that needs it reads it live and reports it. */
  #put(objects: Map<string, T>, object: unknown): string | undefined {
    const key = keyOfObject(object);
    if (key !== undefined) this.#options.follower?.delivered(key, objectOf(object));
    try {
      const value = this.#options.decode(object);
      if (key !== undefined) objects.set(key, value);
    } catch (error) {
      if (!(error instanceof CniError)) throw error;
      const { resource, logger } = this.#options;
      logger.warn({ resource, error: error.message }, "API object is invalid");
      if (key !== undefined) objects.delete(key);
    }
    return key;
  }

  #setSynced(): void {
    this.#setHeard();
    const { resource, metrics } = this.#options;
    if (!this.#synced) metrics?.cacheSynced?.(resource, true);
    this.#synced = true;
  }

  /** Decides after a failure where to resume, and in how many milliseconds. */
  #restartDelay(error: ApiError): number {
    const isAbsent = error.isNotFound && this.#options.mayBeAbsent === true;
    const reason = isAbsent ? "absent" : restartReason(error);
    const { resource, logger, metrics } = this.#options;
    metrics?.watchRestarted?.(resource, reason);
    this.#position.refused(error);
    if (isAbsent) return this.#becomeAbsent();
    const isExpired = reason === "expired";
    this.#failure = isExpired ? this.#failure : error;
    this.#expiries = isExpired ? this.#expiries + 1 : 0;
    // An expired version is no fault of the server: list soon, as the cache serves meanwhile. If it
    // repeats, back off.
    const wanted =
      this.#expiries === 1 ? Math.random() * this.#nodes * listMs : this.#backoff.next();
    const delayMs = Math.max(error.retryAfterMs, Math.round(wanted));
    const fields = { resource, reason, delayMs, error: error.message };
    if (isExpired || this.#backoff.attempts < 3) logger.info(fields, "API watch interrupted");
    else logger.warn(fields, "API watch keeps failing");
    return delayMs;
  }

  /** The resource type does not exist: there are no objects, which is a normal state. */
  #becomeAbsent(): number {
    const { resource, logger, follower } = this.#options;
    this.#objects = new Map();
    this.#position.listFrom = "0";
    if (this.#isServed)
      logger.warn({ resource }, "the API server does not know this resource type: apply its CRD");
    this.#isServed = false;
    follower?.listed(new Set(), false);
    this.#setSynced();
    return this.#timings.absentMs;
  }
}
