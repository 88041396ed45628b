import type { EventReason, EventRecorder, EventSubject, Logger } from "#engine/ports.ts";
import { type ApiError, asApiError } from "#kube/api/api-error.ts";
import type { ApiClient } from "#kube/api/client.ts";
import type { EventDropReason } from "#kube/metric-labels.ts";
import { apiPaths } from "#kube/watch/cluster-source.ts";
import { pause } from "#lib/concurrency/deadline.ts";
import { TokenBucket } from "#lib/concurrency/token-bucket.ts";
import { LruMap } from "#lib/lru-map.ts";
import {
  cutMessage,
  type EventContent,
  eventObject,
  eventTime,
  newEventName,
} from "./event-object.ts";

/** Events about the node itself: its configuration, not a pod. */
export type NodeEventReason =
  | "PlexusConfActive"
  | "PlexusConfShadowed"
  | "PlexusConfMissing"
  | "PlexusConfForeignRename"
  | "PrimaryNetworkChanged"
  | "InvalidConfiguration";

/** An event that was recorded, so that its repetition is a count and not another object. */
interface Series {
  name: string;
  count: number;
  firstTimestamp: string;
  /** In the queue: another occurrence only raises the count. */
  queued: boolean;
  readonly content: EventContent;
}

/** Options of an {@link ApiEventRecorder}. */
export interface EventRecorderOptions {
  readonly client: ApiClient;
  readonly logger: Logger;
  /** This node's name, or how the name of a pod's node is found out. */
  readonly nodeName: string | ((pod: EventSubject) => Promise<string | undefined>);
  /** Events waiting to be sent; more are dropped. @default 512 */
  readonly maxQueued?: number;
  /** Events about one object: burst, then refill. @default 25, one in 30 s */
  readonly perObject?: { readonly burst: number; readonly tokensPerSecond: number };
  /** All events of this node. @default 100, 5 a second */
  readonly global?: { readonly burst: number; readonly tokensPerSecond: number };
  /** Between two attempts to send one. @default 1000 */
  readonly retryMs?: number;
  readonly onDrop?: (reason: EventDropReason) => void;
}

/** Events, and objects that they are about, of which something is remembered: each of them takes 1 to 3 KB. */
const maxKnown = 512;
const attempts = 3;

/**
 * Sends core/v1 events one after the other in the background. Nothing waits for it and nothing
 * fails because of it: it drops what is too much, and counts what it drops.
 */
export class ApiEventRecorder implements EventRecorder {
  readonly #options: Required<Omit<EventRecorderOptions, "onDrop">>;
  readonly #onDrop: (reason: EventDropReason) => void;
  readonly #stop = new AbortController();
  readonly #global: TokenBucket;
  /** By the object's UID. */
  readonly #buckets = new LruMap<TokenBucket>(maxKnown);
  /** By all that an event says. */
  readonly #series = new LruMap<Series>(maxKnown);
  readonly #queue: Series[] = [];
  #sending: Promise<void> | undefined;

  constructor(options: EventRecorderOptions) {
    const { onDrop, ...rest } = options;
    this.#options = {
      maxQueued: 512,
      perObject: { burst: 25, tokensPerSecond: 1 / 30 },
      global: { burst: 100, tokensPerSecond: 5 },
      retryMs: 1000,
      ...rest,
    };
    this.#onDrop = onDrop ?? ((): void => undefined);
    this.#global = new TokenBucket(this.#options.global);
  }

  record(
    pod: EventSubject,
    event: { type: "Normal" | "Warning"; reason: EventReason; message: string },
  ): void {
    const { namespace, name, uid } = pod;
    this.#enqueue({
      involvedObject: { apiVersion: "v1", kind: "Pod", namespace, name, uid },
      ...event,
    });
  }

  /** An event of this node, as `kubectl describe node` shows it. */
  recordOnNode(event: {
    type: "Normal" | "Warning";
    reason: NodeEventReason;
    message: string;
  }): void {
    // The kubelet puts the node's name where its UID would be; `kubectl describe` looks for that.
    const name = this.#options.nodeName;
    if (typeof name !== "string") return;
    this.#enqueue({
      involvedObject: { apiVersion: "v1", kind: "Node", name, uid: name },
      ...event,
    });
  }

  /** Lets queued events go out, at most `graceMs` long. */
  async stop(graceMs: number): Promise<void> {
    const sending = this.#sending ?? Promise.resolve();
    const timer = setTimeout(() => this.#stop.abort(), graceMs);
    await sending;
    clearTimeout(timer);
    this.#stop.abort();
  }

  #enqueue(content: EventContent): void {
    if (this.#stop.signal.aborted) return;
    if (!this.#bucketFor(content).tryTake() || !this.#global.tryTake()) {
      this.#onDrop("rate");
      return;
    }
    const series = this.#seriesFor({ ...content, message: cutMessage(content.message) });
    series.count += 1;
    if (series.queued) return;
    if (this.#queue.length >= this.#options.maxQueued) {
      this.#onDrop("queue");
      return;
    }
    series.queued = true;
    this.#queue.push(series);
    this.#sending ??= this.#drain();
  }

  #bucketFor(content: EventContent): TokenBucket {
    const { uid } = content.involvedObject;
    return this.#buckets.getOrMake(uid, () => new TokenBucket(this.#options.perObject));
  }

  #seriesFor(content: EventContent): Series {
    const { involvedObject, type, reason, message } = content;
    return this.#series.getOrMake([involvedObject.uid, type, reason, message].join("\0"), () => ({
      name: "",
      count: 0,
      firstTimestamp: eventTime(),
      queued: false,
      content,
    }));
  }

  async #drain(): Promise<void> {
    for (let series = this.#queue.shift(); series !== undefined; series = this.#queue.shift()) {
      series.queued = false;
      if (this.#stop.signal.aborted || !(await this.#send(series))) this.#onDrop("failed");
    }
    // In the same turn as the look at the queue: an event of the next turn starts a new loop.
    this.#sending = undefined;
  }

  async #send(series: Series): Promise<boolean> {
    for (let attempt = 1; attempt <= attempts; attempt++) {
      const error = await this.#sendOnce(series);
      if (error === undefined) return true;
      // The event that is counted up has expired on the server: it starts anew.
      if (error.status === 404 && series.name !== "") {
        series.name = "";
        continue;
      }
      if (!error.transient || this.#stop.signal.aborted) {
        this.#options.logger.debug({ error: error.message, ...series.content }, "event not sent");
        return false;
      }
      await pause(Math.max(error.retryAfterMs, this.#options.retryMs), this.#stop.signal);
    }
    return false;
  }

  async #nodeNameFor({ involvedObject }: EventContent): Promise<string | undefined> {
    const { nodeName } = this.#options;
    if (typeof nodeName === "string") return nodeName;
    const { namespace = "", name, uid } = involvedObject;
    return nodeName({ namespace, name, uid });
  }

  async #sendOnce(series: Series): Promise<ApiError | undefined> {
    const { involvedObject } = series.content;
    const namespace = involvedObject.namespace ?? "default";
    const known = series.name !== "";
    const name = known ? series.name : newEventName(involvedObject.name);
    const common = { timeoutMs: 10_000, signal: this.#stop.signal };
    try {
      if (known) {
        await this.#options.client.json({
          method: "PATCH",
          path: `${apiPaths.events(namespace)}/${name}`,
          contentType: "application/merge-patch+json",
          body: { count: series.count, lastTimestamp: eventTime() },
          ...common,
        });
      } else {
        const nodeName = await this.#nodeNameFor(series.content);
        const body = eventObject(series.content, { ...series, name, namespace, nodeName });
        const path = apiPaths.events(namespace);
        await this.#options.client.json({ method: "POST", path, body, ...common });
        series.name = name;
      }
      return undefined;
    } catch (error) {
      return asApiError(error);
    }
  }
}
