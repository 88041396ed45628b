import type { Pod } from "#engine/ports.ts";
import type { PodState } from "#engine/verify/not-attached.ts";
import { isJsonObject, type JsonObject } from "#lib/json.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";
import { apiPaths } from "./cluster-source.ts";
import type { LiveGetter } from "./live-get.ts";
import { podOf } from "./objects.ts";

/** The pods of this node, for what is looked at beside calls. */
export interface NodePods {
  /** Those that the watch has delivered; none before the first LIST. */
  list(): readonly Pod[];
  /**
   * What the API server says of a pod now; undefined when it is gone or was replaced.
   * @throws CniError 11 when there is no answer in time, 6 when it cannot be used
   */
  read(pod: Pod): Promise<PodState | undefined>;
}

/** {@link NodePods} from the cache of the node's pods, which has their metadata only, and live reads. */
export function nodePods(pods: { values(): Iterable<Pod> }, live: LiveGetter): NodePods {
  return {
    list: () => [...pods.values()],
    read: async ({ namespace, name, uid }) => {
      const path = apiPaths.pod(namespace, name);
      const object = await live.get({ object: `pod ${namespace}/${name}`, path });
      const state = object === undefined ? undefined : podStateOf(object);
      return state?.uid === uid ? state : undefined;
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
