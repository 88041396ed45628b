import type { PodState } from "#engine/check/not-attached.ts";
import type { Pod } from "#engine/ports.ts";
import { podOf } from "#kube/objects.ts";
import { apiPaths } from "#kube/watch/cluster-source.ts";
import type { LiveGetter } from "#kube/watch/live-get.ts";
import { isJsonObject, type JsonObject } from "#lib/json.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";

/** The pods of this node, for what is looked at beside calls. */
export interface NodePods {
  /** Those that the watch has delivered; none before the first LIST. */
  list(): readonly Pod[];
  /**
   * What the API server says of a pod now; undefined when it is gone or was replaced.
   * @throws CniError 11 when there is no answer in time, 6 when it cannot be used
   */
  read(pod: Pod): Promise<PodState | undefined>;
  /** The same of whatever pod has the name, of this node or another. @throws CniError as {@link read} */
  find(pod: { readonly namespace: string; readonly name: string }): Promise<PodState | undefined>;
}

/** {@link NodePods} from the cache of the node's pods, which has their metadata only, and live reads. */
export function nodePods(pods: { values(): Iterable<Pod> }, live: LiveGetter): NodePods {
  const find: NodePods["find"] = async ({ namespace, name }) => {
    const path = apiPaths.pod(namespace, name);
    const object = await live.get({ object: `pod ${namespace}/${name}`, path });
    return object === undefined ? undefined : podStateOf(object);
  };
  return {
    list: () => [...pods.values()],
    find,
    read: async (pod) => {
      const state = await find(pod);
      return state?.uid === pod.uid ? state : undefined;
    },
  };
}

/** Undefined for the metadata alone, which a call that reads the same pod at the same time may have asked for. */
function podStateOf(object: JsonObject): PodState | undefined {
  const { spec, status } = object;
  const metadata = isJsonObject(object.metadata) ? object.metadata : {};
  if (!isJsonObject(spec) || !isJsonObject(status)) return undefined;
  const annotations = isJsonObject(metadata.annotations) ? metadata.annotations : {};
  const networkStatus = annotations[networkStatusAnnotation];
  return {
    ...podOf(object),
    ...(typeof spec.nodeName === "string" ? { node: spec.nodeName } : {}),
    hostNetwork: spec.hostNetwork === true,
    phase: typeof status.phase === "string" ? status.phase : "",
    isTerminating: metadata.deletionTimestamp !== undefined,
    podIps: ipsOf(status),
    networkStatus: typeof networkStatus === "string" ? networkStatus : undefined,
  };
}

function ipsOf({ podIPs, podIP }: JsonObject): string[] {
  const all = Array.isArray(podIPs) ? podIPs.filter(isJsonObject).map(({ ip }) => ip) : [];
  return [...new Set([...all, podIP])].filter((ip) => typeof ip === "string");
}
