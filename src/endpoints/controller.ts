import { asApiError } from "#kube/api/api-error.ts";
import type { ApiRequest } from "#kube/api/json-api.ts";
import { apiPaths } from "#kube/api/paths.ts";
import { ApiEventRecorder } from "#kube/events/event-recorder.ts";
import { WatchCache } from "#kube/watch/watch-cache.ts";
import { WritePace } from "#kube/write-pace.ts";
import { pause } from "#lib/concurrency/deadline.ts";
import { KeyedMutex } from "#lib/concurrency/keyed-mutex.ts";
import { Lease, type LeaseOptions } from "./lease.ts";
import { type NetworkPod, type NetworkService, networkPodOf, networkServiceOf } from "./objects.ts";
import { ownSlices, type Slice, serviceNameOf, slicesOf } from "./slices.ts";
import { writesOf } from "./writes.ts";

/** Changes within this time are one write. */
const burstMs = 500;
const retryMs = 5000;

/** Of a namespace. */
interface Objects {
  readonly pods: readonly NetworkPod[];
  readonly services: readonly NetworkService[];
  readonly slices: readonly Slice[];
}

/** What makes the slices of a Service and family as wanted. */
interface Writes {
  readonly namespace: string;
  readonly key: string;
  readonly writes: readonly ApiRequest[];
}

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
  /** By Service and family, by performance.now(): when what failed is sent again. */
  readonly #retryAt = new Map<string, number>();
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
      if (isReady && this.#changed.size > 0) this.#compareChanged(signal);
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

  #compareChanged(signal: AbortSignal): void {
    const [pods, services, slices] = [
      byNamespace(this.#pods),
      byNamespace(this.#services),
      byNamespace(this.#slices),
    ];
    const changed = [...this.#changed];
    this.#changed.clear();
    for (const namespace of changed) {
      const own = { pods: pods.get(namespace) ?? [], slices: slices.get(namespace) ?? [] };
      this.#compare(namespace, { ...own, services: services.get(namespace) ?? [] }, signal);
    }
  }

  /** Writes the slices of a namespace that differ: those of each Service and family by themselves. */
  #compare(namespace: string, own: Objects, signal: AbortSignal): void {
    const labelled = own.pods.flatMap((pod) =>
      Array.from(pod.labels, (label) => [label, pod] as const),
    );
    const pods = Map.groupBy(labelled, ([label]) => label);
    const slices = Map.groupBy(own.slices, serviceNameOf);
    const services = new Map(own.services.map((each) => [each.metadata.name, each]));
    for (const name of new Set([...services.keys(), ...slices.keys()])) {
      const service = services.get(name);
      if (service?.problem !== undefined) {
        this.#report(service, service.problem);
        continue;
      }
      const [label = ""] = service?.labels ?? [];
      const likely = (pods.get(label) ?? []).map(([, pod]) => pod);
      const wanted = service === undefined ? [] : slicesOf(service, likely);
      for (const family of ["IPv4", "IPv6"]) {
        const isOf = ({ addressType }: Pick<Slice, "addressType">) => addressType === family;
        const writes = writesOf((slices.get(name) ?? []).filter(isOf), wanted.filter(isOf));
        const key = `${namespace}/${name} ${family}`;
        if (writes.length > 0) void this.#write({ namespace, key, writes }, signal);
        else this.#retryAt.delete(key);
      }
    }
  }

  /** Sends what is not being sent, and has not failed just now. Never rejects. */
  async #write({ namespace, key, writes }: Writes, signal: AbortSignal): Promise<void> {
    using turn = this.#turns.tryAcquire(key);
    if (turn === undefined || performance.now() < (this.#retryAt.get(key) ?? 0)) {
      this.#changed.add(namespace);
      return;
    }
    this.#retryAt.delete(key);
    try {
      for (const write of writes)
        await this.#pace.run(key, () => this.#send({ ...write, signal }), { signal });
      // The answer may come before the watch's event: until then, the same would be sent again.
      await pause(burstMs, signal);
    } catch (thrown) {
      const error = asApiError(thrown);
      // Its object may have been deleted meanwhile, with its Service or namespace.
      if (signal.aborted || error.isNotFound) return;
      this.#options.logger.warn({ namespace, error: error.message }, "endpoints not written");
      this.#retryAt.set(key, performance.now() + Math.max(retryMs, error.retryAfterMs));
      this.#changed.add(namespace);
    }
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
}

function byNamespace<T extends Pick<Slice, "metadata">>(
  cache: WatchCache<T | undefined>,
): ReadonlyMap<string, readonly T[]> {
  const there = [...cache.values()].filter((each) => each !== undefined);
  return Map.groupBy(there, ({ metadata }) => `${metadata.namespace}`);
}
