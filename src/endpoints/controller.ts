import { asApiError } from "#kube/api/api-error.ts";
import type { ApiRequest } from "#kube/api/json-api.ts";
import { apiPaths } from "#kube/api/paths.ts";
import { ApiEventRecorder } from "#kube/events/event-recorder.ts";
import { WatchCache } from "#kube/watch/watch-cache.ts";
import { WritePace } from "#kube/write-pace.ts";
import { pause } from "#lib/concurrency/deadline.ts";
import { KeyedMutex } from "#lib/concurrency/keyed-mutex.ts";
import { Lease, type LeaseOptions } from "./lease.ts";
import { type NetworkService, networkPodOf, networkServiceOf } from "./objects.ts";
import { ownSlices, type Slice, serviceNameOf, slicesOf } from "./slices.ts";
import { writesOf } from "./writes.ts";

/** Changes within this time are one write. */
const burstMs = 500;
const retryMs = 5000;

/** Keeps the EndpointSlices of annotated Services as their pods say, while it holds the lease. */
export class EndpointsController {
  readonly #options: LeaseOptions;
  readonly #lease: Lease;
  readonly #events: ApiEventRecorder;
  readonly #pace = new WritePace();
  readonly #pods;
  readonly #services;
  readonly #slices;
  /** The namespaces to compare with their slices. */
  readonly #changed = new Set<string>();
  readonly #turns = new KeyedMutex();
  readonly #reported = new WeakSet<NetworkService>();

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.#lease = new Lease(options);
    this.#events = new ApiEventRecorder({ ...options, nodeName: async () => undefined });
    this.#pods = this.#follow(apiPaths.pods, networkPodOf);
    this.#services = this.#follow(apiPaths.services, networkServiceOf);
    this.#slices = this.#follow(apiPaths.endpointSlices, (object) => object as Slice, ownSlices);
  }

  /** Follows and writes until the signal; never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const caches = [this.#pods, this.#services, this.#slices];
    const running = [...caches.map((cache) => cache.run()), this.#lease.run(signal)];
    while (!signal.aborted) {
      await pause(burstMs, signal);
      const isReady = this.#lease.isHeld && caches.every(({ synced }) => synced);
      for (const namespace of isReady ? this.#changed : []) void this.#compare(namespace, signal);
    }
    for (const cache of caches) cache.stop();
    await Promise.all([...running, this.#events.stop(1000)]);
  }

  #follow<T>(path: string, decode: (object: unknown) => T | undefined, query = {}) {
    const resource = path.slice(path.lastIndexOf("/") + 1);
    const cache = new WatchCache({ ...this.#options, path, query, resource, decode });
    cache.listen((key) => this.#changed.add(key.slice(0, key.indexOf("/"))));
    return cache;
  }

  /** Writes the slices of a namespace that differ, unless it does so already. */
  async #compare(namespace: string, signal: AbortSignal): Promise<void> {
    using turn = this.#turns.tryAcquire(namespace);
    if (turn === undefined) return;
    this.#changed.delete(namespace);
    const within = <T extends Pick<Slice, "metadata">>(cache: WatchCache<T | undefined>) =>
      [...cache.values()].flatMap((each) => (each?.metadata.namespace === namespace ? each : []));
    const labelled = within(this.#pods).flatMap((pod) =>
      Array.from(pod.labels, (label) => [label, pod] as const),
    );
    const pods = Map.groupBy(labelled, ([label]) => label);
    const slices = Map.groupBy(within(this.#slices), serviceNameOf);
    const services = new Map(within(this.#services).map((each) => [each.metadata.name, each]));
    const names = new Set([...services.keys(), ...slices.keys()]);
    const compared = Array.from(names, async (name) => {
      const service = services.get(name);
      if (service?.problem !== undefined) return this.#report(service, service.problem);
      const [label = ""] = service?.labels ?? [];
      const likely = (pods.get(label) ?? []).map(([, pod]) => pod);
      const wanted = service === undefined ? [] : slicesOf(service, likely);
      for (const write of writesOf(slices.get(name) ?? [], wanted))
        await this.#pace.run(namespace, () => this.#send(write), { signal });
    });
    for (const outcome of await Promise.allSettled(compared))
      if (outcome.status === "rejected" && !signal.aborted) this.#failed(namespace, outcome.reason);
  }

  #report(service: NetworkService, message: string): void {
    if (this.#reported.has(service)) return;
    this.#reported.add(service);
    this.#events.recordOnService(service.metadata, { reason: "InvalidAnnotation", message });
  }

  /** The lease may be lost while a write waits. */
  async #send(write: ApiRequest): Promise<void> {
    if (!this.#lease.isHeld) throw new Error("the lease is lost");
    await this.#options.client.write(write);
  }

  /** The object of a write may have been deleted meanwhile, with its Service or namespace. */
  #failed(namespace: string, reason: unknown): void {
    const error = asApiError(reason);
    if (error.isNotFound) return;
    this.#options.logger.warn({ namespace, error: error.message }, "endpoints not written");
    setTimeout(() => this.#changed.add(namespace), Math.max(retryMs, error.retryAfterMs)).unref();
  }
}
