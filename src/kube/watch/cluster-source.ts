import type { ClusterSource, Pod, PodIdentity } from "#engine/ports.ts";
import { keyOf, metadataOnly, nadOf, podOf } from "#kube/objects.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { NetworkAttachmentDefinition } from "#npwg/nad.ts";
import type { LiveGetter } from "./live-get.ts";

/** Paths of the API server; names in them are percent-encoded. */
export const apiPaths = {
  pods: "/api/v1/pods",
  nads: "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions",
  pod: (namespace: string, name: string): string =>
    `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}`,
  nad: (namespace: string, name: string): string =>
    `/apis/k8s.cni.cncf.io/v1/namespaces/${encodeURIComponent(namespace)}/network-attachment-definitions/${encodeURIComponent(name)}`,
  events: (namespace: string): string =>
    `/api/v1/namespaces/${encodeURIComponent(namespace)}/events`,
} as const;

/** What an {@link ApiClusterSource} needs of a cache. */
export interface ObjectCache<T> {
  get(key: string): T | undefined;
  readonly synced: boolean;
  readonly failure: Error | undefined;
}

/** What an {@link ApiClusterSource} reads from. */
interface ApiClusterSourceOptions {
  readonly pods: ObjectCache<Pod>;
  readonly nads: ObjectCache<NetworkAttachmentDefinition>;
  readonly live: LiveGetter;
}

/**
 * Pods and definitions from the watch caches; what a cache does not have is read live, as the
 * kubelet may start a pod before the watch has delivered it.
 */
export class ApiClusterSource implements ClusterSource {
  readonly #pods: ObjectCache<Pod>;
  readonly #nads: ObjectCache<NetworkAttachmentDefinition>;
  readonly #live: LiveGetter;

  constructor(options: ApiClusterSourceOptions) {
    this.#pods = options.pods;
    this.#nads = options.nads;
    this.#live = options.live;
  }

  /** @throws CniError 11 when the API server does not say in time whether there is such a pod */
  async getPod(
    identity: PodIdentity,
    options: { signal?: AbortSignal } = {},
  ): Promise<Pod | undefined> {
    const { namespace, name } = identity;
    const cached = this.#pods.get(keyOf(namespace, name));
    if (cached !== undefined && isThePod(cached, identity)) return cached;
    const object = await this.#readPod(identity, { ...options, accept: metadataOnly });
    return object === undefined ? undefined : podOf(object);
  }

  /** @throws CniError 11 when the API server does not answer in time */
  async getPodObject(
    identity: PodIdentity,
    options: { signal?: AbortSignal } = {},
  ): Promise<JsonObject | undefined> {
    return this.#readPod(identity, options);
  }

  async #readPod(
    identity: PodIdentity,
    { signal, accept }: { signal?: AbortSignal; accept?: string },
  ): Promise<JsonObject | undefined> {
    const { namespace, name } = identity;
    const request = { object: `pod ${namespace}/${name}`, path: apiPaths.pod(namespace, name) };
    const object = await this.#live.get({ ...request, ...omitUndefined({ accept }) }, signal);
    return object !== undefined && isThePod(podOf(object), identity) ? object : undefined;
  }

  /** @throws CniError 7 when it is invalid, 11 when the API server does not answer in time */
  async getNad(
    { namespace, name }: { namespace: string; name: string },
    options: { signal?: AbortSignal } = {},
  ): Promise<NetworkAttachmentDefinition | undefined> {
    const cached = this.#nads.get(keyOf(namespace, name));
    if (cached !== undefined) return cached;
    const object = await this.#live.get(
      {
        object: `NetworkAttachmentDefinition ${namespace}/${name}`,
        path: apiPaths.nad(namespace, name),
      },
      options.signal,
    );
    return object === undefined ? undefined : nadOf(object);
  }

  /**
   * Only until the first LIST: later, an API server that is away does not make this node unfit. The
   * kubelet starts only pods that its own watch has delivered, as ours has or soon will.
   */
  notReadyReason(): string | undefined {
    for (const [objects, cache] of [
      ["pods of this node", this.#pods],
      ["NetworkAttachmentDefinitions", this.#nads],
    ] as const) {
      if (cache.synced) continue;
      const reason = cache.failure === undefined ? "" : `: ${cache.failure.message}`;
      return `the ${objects} have not been listed yet${reason}`;
    }
    return undefined;
  }
}

/** A static pod's mirror has a UID of its own; the kubelet's sandbox carries another one. */
function isThePod(pod: Pod, identity: PodIdentity): boolean {
  return identity.uid === undefined || pod.isStatic || pod.uid === identity.uid;
}
