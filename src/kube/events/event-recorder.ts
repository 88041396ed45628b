import type { EventRecorder, EventText, PodIdentity } from "#engine/ports/cluster.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { asApiError } from "#kube/api/api-error.ts";
import type { JsonApi } from "#kube/api/json-api.ts";
import { apiPaths } from "#kube/api/paths.ts";
import type { KubeMetrics } from "#kube/metric-labels.ts";
import { WritePace, writeTimeoutMs } from "#kube/write-pace.ts";
import { pause } from "#lib/concurrency/deadline.ts";
import { TokenBucket } from "#lib/concurrency/token-bucket.ts";
import { LruMap } from "#lib/lru-map.ts";
import { eventTypeOf } from "#lib/reasons.ts";
import {
  cutMessage,
  type EventContent,
  eventObject,
  eventTime,
  newEventName,
} from "./event-object.ts";

/** An event that was recorded: a repetition raises its count. */
interface Series {
  /** Of the Event object; empty before it is created. */
  name: string;
  count: number;
  readonly firstTimestamp: string;
  /** In the queue: a repetition only raises the count. */
  queued: boolean;
  readonly content: EventContent;
}

export interface EventRecorderOptions {
  readonly client: JsonApi;
  readonly logger: Logger;
  /** This node's name, or how to find the name of a pod's node. */
  readonly nodeName: string | ((pod: PodIdentity) => Promise<string | undefined>);
  /** Between two attempts. @default 1000 */
  readonly retryMs?: number;
  readonly metrics?: Partial<KubeMetrics>;
  /** Shared with other writers to the same API server. @default one for events alone */
  readonly pace?: WritePace;
}

/** The limit of remembered events, and of objects with a rate limit; each needs 1 to 3 KB. */
const maxKnown = 512;
/** Further events are dropped. */
const maxQueued = 512;
/** Of events about one object. */
const perObject = { burst: 25, tokensPerSecond: 1 / 30 };
/** Of all events of this node. */
const ofNode = { burst: 100, tokensPerSecond: 5 };
const maxAttempts = 3;
/** Instead of a namespace: all events together have the share of one. */
const ofEvents = "(events)";

/** Sends core/v1 events one by one in the background; drops and counts those above its limits. */
export class ApiEventRecorder implements EventRecorder {
  readonly #options: Required<EventRecorderOptions>;
  readonly #stop = new AbortController();
  readonly #ofNode = new TokenBucket(ofNode);
  /** By UID of the object. */
  readonly #buckets = new LruMap<TokenBucket>(maxKnown);
  /** By object, type, reason and message. */
  readonly #series = new LruMap<Series>(maxKnown);
  readonly #queue: Series[] = [];
  #sending: Promise<void> | undefined;

  constructor(options: EventRecorderOptions) {
    this.#options = {
      retryMs: 1000,
      metrics: {},
      pace: new WritePace(),
      ...options,
    };
  }

  record({ namespace, name, uid }: PodIdentity, event: EventText): void {
    this.#enqueue({ apiVersion: "v1", kind: "Pod", namespace, name, uid }, event);
  }

  /** Records an event of this node, which `kubectl describe node` shows. */
  recordOnNode(event: EventText): void {
    // Like the kubelet, use the node's name as UID: `kubectl describe` searches for that.
    const name = this.#options.nodeName;
    if (typeof name !== "string") return;
    this.#enqueue({ apiVersion: "v1", kind: "Node", name, uid: name }, event);
  }

  /** Records an event of a Service. */
  recordOnService({ namespace, name, uid }: PodIdentity, event: EventText): void {
    this.#enqueue({ apiVersion: "v1", kind: "Service", namespace, name, uid }, event);
  }

  /** Waits at most `graceMs` until queued events are sent. */
  async stop(graceMs: number): Promise<void> {
    const timer = setTimeout(() => this.#stop.abort(), graceMs);
    await this.#sending;
    clearTimeout(timer);
    this.#stop.abort();
  }

  #enqueue(involvedObject: EventContent["involvedObject"], { reason, message }: EventText): void {
    if (this.#stop.signal.aborted) return;
    const { uid } = involvedObject;
    const ofObject = this.#buckets.getOrMake(uid, () => new TokenBucket(perObject));
    if (!ofObject.tryTake() || !this.#ofNode.tryTake()) {
      this.#options.metrics.eventDropped?.("rate");
      return;
    }
    const type = eventTypeOf(reason);
    const cut = { involvedObject, type, reason, message: cutMessage(message) };
    const key = [uid, cut.type, cut.reason, cut.message].join("\0");
    const series = this.#series.getOrMake(key, () => newSeries(cut));
    series.count += 1;
    if (series.queued) return;
    if (this.#queue.length >= maxQueued) {
      this.#options.metrics.eventDropped?.("queue");
      return;
    }
    series.queued = true;
    this.#queue.push(series);
    this.#sending ??= this.#drain();
  }

  async #drain(): Promise<void> {
    for (let series = this.#queue.shift(); series !== undefined; series = this.#queue.shift()) {
      series.queued = false;
      if (this.#stop.signal.aborted || !(await this.#send(series)))
        this.#options.metrics.eventDropped?.("failed");
    }
    // In the same turn as the last look at the queue: a later event starts a new loop.
    this.#sending = undefined;
  }

  async #send(series: Series): Promise<boolean> {
    const { logger, pace, retryMs } = this.#options;
    for (let attempt = 1; attempt <= maxAttempts; attempt++) {
      try {
        await pace.run(ofEvents, () => this.#sendOnce(series), this.#stop);
        return true;
      } catch (thrown) {
        const error = asApiError(thrown);
        if (error.isNotFound && series.name !== "") {
          // The Event object has expired on the server: create another one.
          series.name = "";
        } else if (!error.transient || this.#stop.signal.aborted) {
          logger.debug({ error: error.message, ...series.content }, "event not sent");
          return false;
        } else {
          await pause(Math.max(error.retryAfterMs, retryMs), this.#stop.signal);
        }
      }
    }
    return false;
  }

  async #sendOnce(series: Series): Promise<void> {
    const { client, nodeName } = this.#options;
    const { namespace = "default", name: objectName, uid } = series.content.involvedObject;
    const path = apiPaths.events(namespace);
    const common = { timeoutMs: writeTimeoutMs, signal: this.#stop.signal };
    if (series.name !== "") {
      const body = { count: series.count, lastTimestamp: eventTime() };
      const patch = { path: `${path}/${series.name}`, contentType: "application/merge-patch+json" };
      return client.write({ method: "PATCH", ...patch, body, ...common });
    }
    const name = newEventName(objectName);
    const pod = { namespace, name: objectName, uid };
    const host = typeof nodeName === "string" ? nodeName : await nodeName(pod);
    const body = eventObject(series.content, { ...series, name, namespace, nodeName: host });
    await client.write({ method: "POST", path, body, ...common });
    series.name = name;
  }
}

function newSeries(content: EventContent): Series {
  return { name: "", count: 0, firstTimestamp: eventTime(), queued: false, content };
}
