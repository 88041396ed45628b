import { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { asIoFailure, netlinkTransport } from "#engine/call/sandbox.ts";
import { clusterRanges, podRanges } from "#engine/cluster-ranges.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import { type Cidr, contains, covers, formatCidr } from "#lib/ip.ts";
import { isKeptRoute, type KernelRoute, keptRoute } from "#netlink/routes.ts";
import type { AddRecord } from "./add-record.ts";
import { changeRoutes } from "./default-route/apply.ts";
import type { RoutePlan } from "./default-route/plan.ts";
import type { RouteState } from "./default-route/route-state.ts";

/**
 * Keeps the cluster on the default network's interface of a pod that wants it, before further
 * networks bring their routes: routes to the cluster's ranges. They end with their interface, and
 * change nothing for a pod without further networks, so nothing removes them.
 * @throws CniError 100 for an invalid annotation, 7 or 11 when the ranges are not known, 5 when the
 *   kernel refuses
 */
export async function keepClusterRoutes(
  ctx: CallContext,
  record: AddRecord,
  pod: Pod | undefined,
): Promise<void> {
  const ofPods = podRanges(ctx.config, pod);
  if (ofPods.length === 0) return;
  const { netns, ifName } = record.sandbox;
  const ranges = await clusterRanges(ctx, ofPods);
  const namespace = { netns, transport: netlinkTransport(ctx) };
  const plan = (state: RouteState) => planClusterRoutes(state, ifName, ranges);
  const after = await asIoFailure(() => changeRoutes(namespace, plan));
  const kept = (after?.routes ?? []).filter(isKeptRoute);
  record.noteClusterRoutes(kept.map(({ dst }) => formatCidr(dst)));
}

/**
 * Decides which routes to the cluster's ranges an interface gets: for each, a copy of its closest
 * route to it, or of a kept one where its default route has moved. A range without such a route was
 * never reached, and no range gets a second one.
 * @throws CniError 7 if the pod's own address, and so other pods', is in none of the ranges
 * @internal
 */
export function planClusterRoutes(
  { links, routes, addresses }: RouteState,
  ifName: string,
  ranges: readonly Cidr[],
): RoutePlan {
  const index = links.find(({ name }) => name === ifName)?.index;
  const outside = addresses.find(
    ({ ifIndex, isGlobal, address }) =>
      ifIndex === index && isGlobal && !ranges.some((range) => covers(range, address)),
  );
  if (outside !== undefined) {
    const message = `no range of clusterRoutes has the pod's address ${outside.address}, and so those of other pods`;
    throw new CniError("ClusterRangesUnknown", message);
  }
  const own = routes.filter(({ hops }) => hops.every((hop) => hop.ifIndex === index));
  const wayTo = (range: Cidr): KernelRoute | undefined =>
    own
      .filter(({ dst }) => contains(dst, range))
      .toSorted((a, b) => b.dst.prefix - a.dst.prefix || a.metric - b.metric)[0] ??
    own.find((route) => isKeptRoute(route) && route.family === range.family);
  const edits = ranges.flatMap((range) => {
    const way = wayTo(range);
    const isServed = routes.some(({ dst }) => formatCidr(dst) === formatCidr(range));
    return way === undefined || isServed
      ? []
      : [{ op: "add", route: keptRoute(range, way) } as const];
  });
  return { edits, families: [4, 6] };
}
