import type {
  CalledPod,
  ClusterRanges,
  ClusterSource,
  Pod,
  PodName,
} from "#engine/ports/cluster.ts";
import { apiPaths, type ObjectName } from "#kube/api/paths.ts";
import type { WatchCache } from "#kube/watch/watch-cache.ts";
import { errorMessage } from "#lib/error-message.ts";
import { type JsonObject, objectsOf, quoteValue } from "#lib/json.ts";
import type { NetworkAttachmentDefinition } from "#npwg/nad.ts";
import { nodeNameOf, runtimeUid } from "#npwg/object-meta.ts";
import { ApiClusterRanges } from "./cluster-ranges.ts";
import type { KeptDefinitions } from "./kept-definitions.ts";
import type { LiveGetter } from "./live-get.ts";
import { keyOf, metadataListOnly, metadataOnly, nadOf, podOf } from "./objects.ts";

/** What an {@link ApiClusterSource} needs of a cache. */
type ObjectCache<T> = Pick<WatchCache<T>, "get" | "values" | "synced" | "failure">;

interface ApiClusterSourceOptions {
  readonly pods: ObjectCache<Pod>;
  readonly nads: ObjectCache<NetworkAttachmentDefinition>;
  readonly live: LiveGetter;
  /** Absent where none are kept. */
  readonly kept?: Pick<KeptDefinitions, "lost" | "missing"> | undefined;
  /** Of this node; undefined when it is not known. */
  readonly nodeName: string | undefined;
}

/**
 * Pods and definitions from the watch caches. What a cache lacks is read live: the kubelet may start
 * a pod before the watch has delivered it.
 */
export class ApiClusterSource implements ClusterSource {
  readonly #options: ApiClusterSourceOptions;
  readonly #ranges: ApiClusterRanges;

  constructor(options: ApiClusterSourceOptions) {
    this.#options = options;
    this.#ranges = new ApiClusterRanges(options.live, options.nodeName);
  }

  /** @throws CniError 11 when the API server does not answer in time */
  async getPod(
    identity: CalledPod,
    options: { signal?: AbortSignal } = {},
  ): Promise<Pod | undefined> {
    const cached = this.#options.pods.get(keyOf(identity));
    if (cached !== undefined && isThePod(cached, identity)) return cached;
    // Without a UID, the node shows whether it is this pod: its spec is needed.
    const accept = identity.uid === undefined ? undefined : metadataOnly;
    const object = await this.getPodObject(identity, { ...options, accept });
    return object === undefined ? undefined : podOf(object);
  }

  knownPod(pod: PodName): Pod | undefined {
    return this.#options.pods.get(keyOf(pod));
  }

  /** @throws CniError 11 when the API server does not answer in time */
  async getPodObject(
    identity: CalledPod,
    { signal, accept }: { signal?: AbortSignal; accept?: string | undefined } = {},
  ): Promise<JsonObject | undefined> {
    const { live, nodeName } = this.#options;
    const request = { object: `pod ${keyOf(identity)}`, path: apiPaths.pod(identity), accept };
    const object = await live.get(request, signal);
    if (object === undefined || !isThePod(podOf(object), identity)) return undefined;
    const isNamed = identity.uid !== undefined || nodeName === undefined;
    return isNamed || nodeNameOf(object) === nodeName ? object : undefined;
  }

  /** @throws CniError 7 when the definition is invalid, 11 without an answer in time */
  async getNad(
    nad: ObjectName,
    options: { signal?: AbortSignal } = {},
  ): Promise<NetworkAttachmentDefinition | undefined> {
    const cached = this.#options.nads.get(keyOf(nad));
    if (cached !== undefined) return cached;
    const name = `NetworkAttachmentDefinition ${keyOf(nad)}`;
    const request = { object: name, path: apiPaths.nad(nad), isShared: true };
    const object = await this.#options.live.get(request, options.signal);
    if (object !== undefined) return nadOf(object);
    return this.#options.kept?.lost(nad, options.signal);
  }

  *knownNads(): Iterable<NetworkAttachmentDefinition> {
    yield* this.#options.nads.values();
    yield* this.#options.kept?.missing() ?? [];
  }

  /** @throws CniError 11 when the API server does not answer in time */
  async namespaceMatches(
    namespace: string,
    labelSelector: string,
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<boolean> {
    const object = `the labels of namespace ${namespace} for the selector ${quoteValue(labelSelector)}`;
    const query = { fieldSelector: `metadata.name=${namespace}`, labelSelector };
    const request = { object, path: apiPaths.namespaces, query, accept: metadataListOnly };
    const list = await this.#options.live.get({ ...request, isShared: true }, signal);
    return objectsOf(list?.items).length > 0;
  }

  clusterRanges({ signal }: { signal?: AbortSignal } = {}): Promise<ClusterRanges> {
    return this.#ranges.get(signal);
  }

  /**
   * Why pods cannot be looked up, until the first LIST. Later, an unavailable API server does not
   * make this node unready: the kubelet starts only pods that its own watch has delivered.
   */
  notReadyReason(): string | undefined {
    const { pods, nads } = this.#options;
    const cache = [pods, nads].find(({ synced }) => !synced);
    if (cache === undefined) return undefined;
    const objects = cache === pods ? "pods of this node" : "NetworkAttachmentDefinitions";
    const reason = cache.failure === undefined ? "" : `: ${cache.failure.message}`;
    return `the ${objects} have not been listed yet${reason}`;
  }

  /** The caches cannot tell: an open watch outlives its permission, and may be half-open. */
  async lookUpProblem(): Promise<string | undefined> {
    const { live } = this.#options;
    const reading = [apiPaths.pods, apiPaths.nads].map((path) =>
      live.get({ object: path, path, query: { limit: 1 }, accept: metadataListOnly }),
    );
    const problem = await Promise.all(reading).then(() => undefined, errorMessage);
    return problem ?? this.notReadyReason();
  }
}

/** By the pod's UID, or that of the runtime. The kubelet may be about to replace a former static pod's mirror. */
function isThePod(pod: Pod, { uid }: CalledPod): boolean {
  return uid === undefined || pod.uid === uid || runtimeUid(pod) === uid;
}
