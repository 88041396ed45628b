import { isDeepStrictEqual } from "node:util";
import { asApiError } from "#kube/api/api-error.ts";
import { apiPaths } from "#kube/api/paths.ts";
import { ApiEventRecorder } from "#kube/events/event-recorder.ts";
import { keyOf } from "#kube/objects.ts";
import { WatchCache } from "#kube/watch/watch-cache.ts";
import { WritePace } from "#kube/write-pace.ts";
import { pause } from "#lib/concurrency/deadline.ts";
import { KeyedMutex } from "#lib/concurrency/keyed-mutex.ts";
import { Lease, type LeaseOptions } from "./lease.ts";
import { isSelected, networkPodOf, networkServiceOf } from "./objects.ts";
import { ownSlices, type Slice, serviceKeyOf, slicesOf } from "./slices.ts";
import { writesOf } from "./writes.ts";

/** Changes within this time are one write. */
const burstMs = 500;
const retryMs = 5000;

/** Keeps the EndpointSlices of annotated Services as their pods say, while it holds the lease. */
export class EndpointsController {
  readonly #options: LeaseOptions;
  readonly #events: ApiEventRecorder;
  readonly #pace = new WritePace();
  readonly #caches: Pick<WatchCache<unknown>, "run" | "stop" | "synced">[] = [];
  readonly #pods;
  readonly #services;
  readonly #slices;
  /** The Services to compare with their slices. */
  readonly #changed = new Set<string>();
  readonly #writing = new KeyedMutex();

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.#events = new ApiEventRecorder({ ...options, nodeName: async () => undefined });
    this.#pods = this.#follow({ path: apiPaths.pods, decode: networkPodOf }, (pod) => {
      for (const [key, service] of this.#services)
        if (isSelected(pod, service)) this.#changed.add(key);
    });
    const services = { path: apiPaths.services, decode: networkServiceOf };
    this.#services = this.#follow(services, (service) => this.#changed.add(keyOf(service)));
    const decode = (object: unknown) => object as Slice;
    const slices = { path: apiPaths.endpointSlices, query: ownSlices, decode };
    this.#slices = this.#follow(slices, (slice) => this.#changed.add(serviceKeyOf(slice)));
  }

  /** Follows and writes until the signal; never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const lease = new Lease(this.#options);
    const running = [...this.#caches.map((cache) => cache.run()), lease.run(signal)];
    while (!signal.aborted) {
      await pause(burstMs, signal);
      const isReady = lease.isHeld && this.#caches.every(({ synced }) => synced);
      for (const key of isReady ? this.#changed : []) {
        const turn = this.#writing.tryAcquire(key);
        if (turn === undefined) continue;
        this.#changed.delete(key);
        void this.#compare(key, signal).finally(() => turn[Symbol.dispose]());
      }
    }
    for (const cache of this.#caches) cache.stop();
    await Promise.all([...running, this.#events.stop(1000)]);
  }

  /** The objects of a watch. `changed` gets each as it was before a change, and as it is after it. */
  #follow<T extends object>(
    watched: {
      path: string;
      query?: Record<string, string>;
      decode: (object: unknown) => T | undefined;
    },
    changed: (object: T) => void,
  ): ReadonlyMap<string, T> {
    const resource = watched.path.slice(watched.path.lastIndexOf("/") + 1);
    const cache = new WatchCache({ ...this.#options, ...watched, resource });
    const objects = new Map<string, T>();
    cache.listen((key, now) => {
      const before = objects.get(key);
      if (isDeepStrictEqual(before, now)) return;
      if (now === undefined) objects.delete(key);
      else objects.set(key, now);
      for (const each of [before, now]) if (each !== undefined) changed(each);
    });
    this.#caches.push(cache);
    return objects;
  }

  async #compare(key: string, signal: AbortSignal): Promise<void> {
    const { client, logger } = this.#options;
    const service = this.#services.get(key);
    if (service?.problem !== undefined) {
      const event = { reason: "InvalidAnnotation", message: service.problem } as const;
      return this.#events.recordOnService(service, event);
    }
    const own = [...this.#slices.values()].filter((slice) => serviceKeyOf(slice) === key);
    const wanted = service === undefined ? [] : slicesOf(service, this.#pods.values());
    const [namespace = ""] = key.split("/");
    try {
      for (const write of writesOf(client, own, wanted))
        await this.#pace.run(namespace, write, { signal });
    } catch (thrown) {
      const error = asApiError(thrown);
      if (signal.aborted) return;
      logger.warn({ service: key, error: error.message }, "endpoints not written");
      void pause(Math.max(retryMs, error.retryAfterMs), signal).then(() => this.#changed.add(key));
    }
  }
}
