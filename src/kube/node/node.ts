import type { Pod, PodName, PodState } from "#engine/ports/cluster.ts";
import type { ApiClient } from "#kube/api/client.ts";
import type { JsonApi } from "#kube/api/json-api.ts";
import { apiPaths, type ObjectName } from "#kube/api/paths.ts";
import type { LiveGetter } from "#kube/live-get.ts";
import { podOf } from "#kube/objects.ts";
import type { WatchCache, WatchListener } from "#kube/watch/watch-cache.ts";
import { isJsonObject, type JsonObject, objectOf, objectsOf } from "#lib/json.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";

/** The pods of this node, for background checks. */
export interface NodePods {
  /** The pods that the watch has delivered; none before the first LIST. */
  list(): readonly Pod[];
  /** Calls the listener for every pod that the watch delivers from now on, and that is gone. */
  listen(listener: WatchListener<Pod>): void;
  /** Reads a live pod; undefined when gone or replaced. @throws CniError 11 for a timeout, 6 */
  read(pod: Pod): Promise<PodState | undefined>;
  /** Reads the pod with this name, on any node. @throws CniError as {@link read} */
  find(pod: PodName): Promise<PodState | undefined>;
}

/** {@link NodePods} from the cache of the node's pods, which has only their metadata, and live reads. */
export function nodePods(
  pods: Pick<WatchCache<Pod>, "values" | "listen">,
  live: LiveGetter,
): NodePods {
  const find: NodePods["find"] = async (pod) => {
    const path = apiPaths.pod(pod);
    const object = await live.get({ object: `pod ${pod.namespace}/${pod.name}`, path });
    return object === undefined ? undefined : podStateOf(object);
  };
  return {
    list: () => [...pods.values()],
    listen: (listener) => pods.listen(listener),
    find,
    read: async (pod) => {
      const state = await find(pod);
      return state?.uid === pod.uid ? state : undefined;
    },
  };
}

/** Undefined for an object that is only metadata. */
function podStateOf(object: JsonObject): PodState | undefined {
  const { spec, status } = object;
  if (!isJsonObject(spec) || !isJsonObject(status)) return undefined;
  const metadata = objectOf(object.metadata);
  const networkStatus = objectOf(metadata.annotations)[networkStatusAnnotation];
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
  const all = objectsOf(podIPs).map(({ ip }) => ip);
  return [...new Set([...all, podIP])].filter((ip) => typeof ip === "string");
}

/** Removes all taints with this key. @returns whether there was one @throws ApiError */
export async function removeTaint(
  client: ApiClient,
  { nodeName, key }: { readonly nodeName: string; readonly key: string },
): Promise<boolean> {
  const timeoutMs = 10_000;
  const path = apiPaths.node(nodeName);
  const { spec } = await client.json({ path, timeoutMs });
  const { taints } = objectOf(spec);
  if (!Array.isArray(taints)) return false;
  const kept = taints.filter((taint) => !isJsonObject(taint) || taint.key !== key);
  if (kept.length === taints.length) return false;
  const body = [
    { op: "test", path: "/spec/taints", value: taints },
    { op: "replace", path: "/spec/taints", value: kept },
  ];
  const contentType = "application/json-patch+json";
  const query = { fieldManager: "plexus" };
  await client.write({ method: "PATCH", path, query, contentType, body, timeoutMs });
  return true;
}

/**
 * Requests a token of a service account that is valid while the Node exists, and names it in
 * admission requests; the API server may grant less time. Needs `create` on `serviceaccounts/token`,
 * and Kubernetes 1.31. @throws ApiError; Error for an answer without token
 */
export async function requestNodeToken(
  client: JsonApi,
  { account, nodeName, seconds }: { account: ObjectName; nodeName: string; seconds: number },
): Promise<string> {
  const { status } = await client.json({
    method: "POST",
    path: apiPaths.token(account),
    body: {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: {
        audiences: [],
        expirationSeconds: seconds,
        boundObjectRef: { apiVersion: "v1", kind: "Node", name: nodeName },
      },
    },
    timeoutMs: 10_000,
  });
  const { token } = objectOf(status);
  if (typeof token === "string" && token !== "") return token;
  throw new Error(`the API server granted no token for ${account.namespace}/${account.name}`);
}
