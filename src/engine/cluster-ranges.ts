import { CniError } from "#cni/error.ts";
import type { EngineConfig } from "#engine/config.ts";
import { clusterRangesMax, isClusterRange } from "#engine/config-keys.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { type Cidr, formatCidr, parseCidr } from "#lib/ip.ts";

/** `none`, or ranges with commas between them, instead of `clusterRoutes`. */
export const clusterRoutesAnnotation = "plexus.dev/cluster-routes";

/** The ranges of pods that a pod keeps its routes to; none if it keeps no routes. @throws CniError 100 */
export function podRanges(
  { clusterRoutes }: Pick<EngineConfig, "clusterRoutes">,
  pod: Pick<Pod, "annotations"> | undefined,
): readonly string[] {
  const wanted = pod?.annotations[clusterRoutesAnnotation];
  if (wanted === undefined) return clusterRoutes;
  if (wanted === "none") return [];
  const ranges = wanted.split(",", clusterRangesMax + 1).map((each) => each.trim());
  if (ranges.length <= clusterRangesMax && ranges.every(isClusterRange)) return ranges;
  const value = JSON.stringify(wanted.slice(0, 100));
  const message = `annotation ${clusterRoutesAnnotation}: must be none, or at most ${clusterRangesMax} networks of the cluster with commas between them, not ${value}`;
  throw new CniError("InvalidRequest", message);
}

/**
 * What a pod reaches by the default network: these ranges of pods, those of Services, and the node.
 * `spec.podCIDRs` of the nodes would miss nodes that join later, and the ranges of primary CNIs that
 * ignore it.
 * @throws CniError 11 while the API server is unavailable
 */
export async function clusterRanges(
  {
    deps: { source },
    signal,
  }: { readonly deps: Pick<EngineDeps, "source">; readonly signal: AbortSignal },
  ofPods: readonly string[],
): Promise<readonly Cidr[]> {
  const { services = [], node = [] } = (await source?.clusterRanges?.({ signal })) ?? {};
  const all = [...ofPods, ...services, ...node].map(parseCidr);
  return [...new Map(all.map((range) => [formatCidr(range), range])).values()];
}
