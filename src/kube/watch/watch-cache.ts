import { CniError } from "#cni/error.ts";
import type { Logger } from "#engine/ports.ts";
import { type ApiError, asApiError } from "#kube/api/api-error.ts";
import { ListWatch, type ListWatchTarget, parseWatchEvent } from "#kube/api/list-watch.ts";
import type { RestartReason } from "#kube/metric-labels.ts";
import { Backoff } from "#lib/concurrency/backoff.ts";
import { pause, untilAborted } from "#lib/concurrency/deadline.ts";
import { restartReason } from "./restart-reason.ts";
import { isVersionUnusable, WatchPosition } from "./watch-position.ts";
import { defaultWatchTimings, type WatchTimings } from "./watch-timings.ts";

/** Which resource type is kept, and how. */
interface WatchCacheOptions<T> extends ListWatchTarget {
  /** Plural name, for logs and metrics. */
  readonly resource: string;
  /** The key of an object; undefined when it has no name. */
  readonly keyOf: (object: unknown) => string | undefined;
  /** The part of an object that is used. @throws CniError when it cannot be used */
  readonly decode: (object: unknown) => T;
  /** Whether HTTP 404 means "none of them" rather than an error: for custom resources. */
  readonly mayBeAbsent?: boolean;
  readonly logger: Logger;
  readonly timings?: Partial<WatchTimings>;
  /** Called with false at once, so that an alert can see a cache that is never listed, and with true after the LIST. */
  readonly onSynced?: (synced: boolean) => void;
  readonly onRestart?: (reason: RestartReason) => void;
}

/**
 * All objects of one resource type, kept up to date by LIST and WATCH: the reflector of client-go.
 * Whatever ends a watch, it goes on from the last resource version; when that has expired, from a
 * new LIST, during which the old content stays.
 */
export class WatchCache<T> {
  readonly #options: WatchCacheOptions<T>;
  readonly #timings: WatchTimings;
  readonly #requests: ListWatch;
  readonly #backoff: Backoff;
  readonly #position = new WatchPosition();
  readonly #stop = new AbortController();
  readonly #firstSync = Promise.withResolvers<void>();
  #objects = new Map<string, T>();
  #synced = false;
  #failure: ApiError | undefined;
  /** Versions that had expired, one after the other without an event between. */
  #expiries = 0;

  constructor(options: WatchCacheOptions<T>) {
    this.#options = options;
    this.#timings = { ...defaultWatchTimings, ...options.timings };
    this.#requests = new ListWatch(options, this.#timings);
    this.#backoff = new Backoff(this.#timings.backoff);
    options.onSynced?.(false);
  }

  get(key: string): T | undefined {
    return this.#objects.get(key);
  }

  /** Every object that is known now. */
  values(): Iterable<T> {
    return this.#objects.values();
  }

  get size(): number {
    return this.#objects.size;
  }

  /** Whether there has been a complete LIST. */
  get synced(): boolean {
    return this.#synced;
  }

  /** What went wrong last, while it has not gone right again. */
  get failure(): ApiError | undefined {
    return this.#failure;
  }

  /** Resolves after the first complete LIST; rejects with the signal's reason. */
  whenSynced(signal?: AbortSignal): Promise<void> {
    return untilAborted(this.#firstSync.promise, signal);
  }

  /** Lists and watches until {@link WatchCache.stop}; never rejects. */
  async run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        if (this.#position.watchFrom === undefined) await this.#list();
        await this.#watch();
      } catch (error) {
        if (signal.aborted) return;
        await pause(
          this.#restartDelay(asApiError(error, `watch ${this.#options.resource}`)),
          signal,
        );
      }
    }
  }

  stop(): void {
    this.#stop.abort();
  }

  async #list(): Promise<void> {
    const objects = new Map<string, T>();
    let version = "";
    let next: string | undefined;
    do {
      const from =
        next === undefined ? { resourceVersion: this.#position.listFrom } : { continue: next };
      const page = await this.#requests.list(from, this.#stop.signal);
      for (const item of page.items) this.#put(objects, item);
      next = page.next;
      version = page.version;
    } while (next !== undefined);
    this.#objects = objects;
    this.#position.reached(version);
    this.#setSynced();
    this.#options.logger.info(
      { resource: this.#options.resource, objects: objects.size },
      "API objects listed",
    );
  }

  async #watch(): Promise<void> {
    const startedAt = performance.now();
    let events = 0;
    const lines = this.#requests.watch(this.#position.watchFrom, this.#stop.signal);
    for await (const line of lines) {
      this.#apply(line);
      events += 1;
      this.#setWell();
    }
    // A server that ends watches at once, without an event, must not be asked in a hot loop.
    if (events === 0 && performance.now() - startedAt < 1000) {
      throw new Error("the server closed the watch at once");
    }
    this.#setWell();
  }

  #setWell(): void {
    this.#failure = undefined;
    this.#expiries = 0;
    this.#backoff.reset();
  }

  /** Takes one watch event in. @throws ApiError for an ERROR event */
  #apply(line: string): void {
    const { type, object, version } = parseWatchEvent(line, this.#options.resource);
    if (type === "ADDED" || type === "MODIFIED") this.#put(this.#objects, object);
    else if (type === "DELETED") this.#remove(object);
    if (version !== undefined) this.#position.reached(version);
  }

  #put(objects: Map<string, T>, object: unknown): void {
    const key = this.#options.keyOf(object);
    const value = this.#decode(object);
    if (key === undefined) return;
    if (value === undefined) objects.delete(key);
    else objects.set(key, value);
  }

  #remove(object: unknown): void {
    const key = this.#options.keyOf(object);
    if (key !== undefined) this.#objects.delete(key);
  }

  /**
   * One object that cannot be used must not keep the others away. It is not cached, nor is what it was
   * before: whoever asks for it reads it live, and so learns what is wrong.
   */
  #decode(object: unknown): T | undefined {
    try {
      return this.#options.decode(object);
    } catch (error) {
      if (!(error instanceof CniError)) throw error;
      const { resource, logger } = this.#options;
      logger.warn({ resource, error: error.message }, "API object cannot be used");
      return undefined;
    }
  }

  #setSynced(): void {
    this.#failure = undefined;
    if (!this.#synced) this.#options.onSynced?.(true);
    this.#synced = true;
    this.#firstSync.resolve();
  }

  /** Decides from where to go on after a failure, and when: milliseconds. */
  #restartDelay(error: ApiError): number {
    const absent = error.status === 404 && this.#options.mayBeAbsent === true;
    const reason = absent ? "absent" : restartReason(error);
    this.#options.onRestart?.(reason);
    this.#position.refused(error);
    if (absent) return this.#becomeAbsent();
    const versionUnusable = isVersionUnusable(error);
    this.#failure = versionUnusable ? this.#failure : error;
    this.#expiries = versionUnusable ? this.#expiries + 1 : 0;
    // An expired version says nothing against the server: the LIST follows soon, but not in a loop.
    const wanted =
      this.#expiries === 1 ? Math.random() * this.#timings.backoff.initialMs : this.#backoff.next();
    const delayMs = Math.max(error.retryAfterMs, Math.round(wanted));
    this.#logRestart(error, { reason, delayMs });
    return delayMs;
  }

  /** The resource type does not exist: there are none of it, which is a state like any other. */
  #becomeAbsent(): number {
    this.#objects = new Map();
    this.#position.restart();
    if (!this.#synced) {
      this.#options.logger.warn(
        { resource: this.#options.resource },
        "the API server does not know this resource type: apply its CRD",
      );
    }
    this.#setSynced();
    return this.#timings.absentMs;
  }

  #logRestart(error: ApiError, fields: { reason: RestartReason; delayMs: number }): void {
    const all = { resource: this.#options.resource, ...fields, error: error.message };
    if (fields.reason === "expired" || this.#backoff.attempts < 3) {
      this.#options.logger.info(all, "API watch interrupted");
    } else this.#options.logger.warn(all, "API watch keeps failing");
  }
}
