import type { ClusterSource, Pod, PodIdentity } from "#engine/ports.ts";
import type { JsonObject } from "#lib/json.ts";
import type { NetworkAttachmentDefinition } from "#npwg/nad.ts";
import type { LiveGetter } from "./live-get.ts";
import { keyOf, metadataOnly, nadOf, podOf } from "./objects.ts";

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

/** What is asked of a cache; the watch caches are some. */
export interface ObjectCache<T> {
  get(key: string): T | undefined;
  readonly synced: boolean;
  readonly failure: Error | undefined;
}

/** What an {@link ApiClusterSource} reads from. */
export interface ApiClusterSourceOptions {
  readonly pods: ObjectCache<Pod>;
  readonly nads: ObjectCache<NetworkAttachmentDefinition>;
  readonly live: LiveGetter;
}

/**
 * Pods and definitions from the watch caches; what a cache does not have is asked for live, as the
 * kubelet may start a pod before the watch has told of it.
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

  /** @throws CniError 11 when the API server cannot say in time whether there is such a pod */
  async getPod(
    identity: PodIdentity,
    options: { signal?: AbortSignal } = {},
  ): Promise<Pod | undefined> {
    const { namespace, name } = identity;
    const cached = this.#pods.get(keyOf(namespace, name));
    if (cached !== undefined && isThePod(cached, identity)) return cached;
    const object = await this.#live.get(
      {
        what: `pod ${namespace}/${name}`,
        path: apiPaths.pod(namespace, name),
        accept: metadataOnly,
      },
      options.signal,
    );
    const pod = decoded(object, podOf);
    return pod !== undefined && isThePod(pod, identity) ? pod : undefined;
  }

  /** @throws CniError 11 when the API server cannot say in time whether there is such a definition */
  async getNad(
    { namespace, name }: { namespace: string; name: string },
    options: { signal?: AbortSignal } = {},
  ): Promise<NetworkAttachmentDefinition | undefined> {
    const cached = this.#nads.get(keyOf(namespace, name));
    if (cached !== undefined) return cached;
    const object = await this.#live.get(
      {
        what: `NetworkAttachmentDefinition ${namespace}/${name}`,
        path: apiPaths.nad(namespace, name),
      },
      options.signal,
    );
    return decoded(object, nadOf);
  }

  /**
   * Only until the first LIST: later, an API server that is away does not make this node unfit. The
   * kubelet starts only pods that it was told of, which the cache was told of as well.
   */
  notReadyReason(): string | undefined {
    for (const [what, cache] of [
      ["pods of this node", this.#pods],
      ["NetworkAttachmentDefinitions", this.#nads],
    ] as const) {
      if (cache.synced) continue;
      const why = cache.failure === undefined ? "" : `: ${cache.failure.message}`;
      return `the ${what} have not been listed yet${why}`;
    }
    return undefined;
  }
}

/** A static pod's mirror has a UID of its own; the kubelet's sandbox carries another one. */
function isThePod(pod: Pod, identity: PodIdentity): boolean {
  return identity.uid === undefined || pod.isStatic || pod.uid === identity.uid;
}

function decoded<T>(
  object: JsonObject | undefined,
  decode: (object: JsonObject) => T | undefined,
): T | undefined {
  return object === undefined ? undefined : decode(object);
}
