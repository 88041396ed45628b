import { CniError } from "#cni/error.ts";
import type { EngineConfig } from "#engine/config.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { type Cidr, parseCidr } from "#lib/ip.ts";

/** `keep` or `none`: whether the pod keeps its routes to the cluster, instead of `clusterRoutes`. */
export const clusterRoutesAnnotation = "plexus.dev/cluster-routes";

/** Whether a pod keeps routes to the cluster. @throws CniError 100 for an invalid annotation */
export function keepsClusterRoutes(
  { clusterRoutes }: Pick<EngineConfig, "clusterRoutes">,
  pod: Pick<Pod, "annotations"> | undefined,
): boolean {
  const wanted = pod?.annotations[clusterRoutesAnnotation];
  if (wanted === undefined) return clusterRoutes !== undefined;
  if (wanted === "keep" || wanted === "none") return wanted === "keep";
  const message = `annotation ${clusterRoutesAnnotation}: must be keep or none, not ${JSON.stringify(wanted.slice(0, 100))}`;
  throw new CniError("InvalidRequest", message);
}

/**
 * What pods reach by the default network: the ranges of Services and the configured ones, which
 * include the pods', and the node. `spec.podCIDRs` of the nodes would miss nodes that join later, and
 * the ranges of primary CNIs that ignore it.
 * @throws CniError 7 if no range of Services is known, 11 while the API server is unavailable
 */
export async function clusterRanges({
  config: { clusterRoutes = [] },
  deps: { source },
  signal,
}: {
  readonly config: Pick<EngineConfig, "clusterRoutes">;
  readonly deps: Pick<EngineDeps, "source">;
  readonly signal: AbortSignal;
}): Promise<readonly Cidr[]> {
  const configured = clusterRoutes === "keep" ? [] : clusterRoutes;
  const { services, node = [] } = (await source?.clusterRanges?.({ signal })) ?? {};
  if (services === undefined && configured.length === 0) {
    const message = "the API server has no ServiceCIDRs, and clusterRoutes names no ranges";
    throw new CniError("ClusterRangesUnknown", message);
  }
  return [...new Set([...configured, ...(services ?? []), ...node])].map(parseCidr);
}
