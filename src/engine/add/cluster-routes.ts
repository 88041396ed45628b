import { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { asIoFailure, netlinkTransport } from "#engine/call/sandbox.ts";
import { clusterRanges, keepsClusterRoutes } from "#engine/cluster-ranges.ts";
import type { PlannedAttachment } from "#engine/plan/planned-attachment.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import type { StoredRecord } from "#engine/record/teardown-plan.ts";
import { type Cidr, contains, covers, formatCidr, type IpFamily } from "#lib/ip.ts";
import { isDefault, isKeptRoute, type KernelRoute, keptRoute } from "#netlink/routes.ts";
import { defaultRouteFamilies } from "#npwg/selection/network-selection.ts";
import type { AddRecord } from "./add-record.ts";
import { changeRoutes } from "./default-route/apply.ts";
import type { RoutePlan } from "./default-route/plan.ts";
import { defaultsOf, type RouteState } from "./default-route/route-state.ts";

interface PodNetworks {
  readonly pod: Pod | undefined;
  readonly attachments: readonly PlannedAttachment[];
}

/**
 * Keeps the cluster on the default network's interface of a pod that wants it, before further
 * networks bring their routes: routes to the cluster's ranges, by the default route. A DEL needs
 * none of this, because the routes end with their interface.
 * @throws CniError 7 or 11 when the ranges are not known, 5 when the kernel refuses
 */
export async function keepClusterRoutes(
  ctx: CallContext,
  record: AddRecord,
  { pod, attachments }: PodNetworks,
): Promise<void> {
  const keeps = keepsClusterRoutes(ctx.config, pod);
  if (!keeps && !record.sandbox.clusterRoutes?.length) return;
  const moved = attachments.flatMap(({ selection }) =>
    defaultRouteFamilies(selection?.defaultRoute),
  );
  const ranges = keeps ? await clusterRanges(ctx) : [];
  record.noteClusterRoutes(await setClusterRoutes(ctx, record.sandbox, { ranges, moved }));
}

/** Removes the routes from a running pod with only its default network. @throws CniError 5 */
export async function dropClusterRoutes(
  ctx: CallContext,
  { record, plan }: StoredRecord,
): Promise<void> {
  if (!record.clusterRoutes?.length || record.attachments.length > 1) return;
  const clusterRoutes = await setClusterRoutes(ctx, record, { ranges: [], moved: [] });
  await ctx.deps.records.update({ ...record, clusterRoutes }, plan);
}

interface WantedRoutes {
  readonly ranges: readonly Cidr[];
  /** The families whose default route moves to another interface. */
  readonly moved: readonly IpFamily[];
}

/** @returns the destinations of the routes that the sandbox has then */
async function setClusterRoutes(
  ctx: CallContext,
  { netns, ifName }: Pick<AttachmentRecord, "netns" | "ifName">,
  wanted: WantedRoutes,
): Promise<string[]> {
  const namespace = { netns, transport: netlinkTransport(ctx) };
  const plan = (state: RouteState) => planClusterRoutes(state, ifName, wanted);
  const after = await asIoFailure(() => changeRoutes(namespace, plan));
  return (after?.routes ?? []).filter(isKeptRoute).map(({ dst }) => formatCidr(dst));
}

/**
 * Decides which routes to the cluster's ranges an interface has: copies of its default route, or of
 * a kept one where that has moved. Where its plugins have set a route, that stays; where they have set
 * no default route, the other ranges were never reached.
 * @throws CniError 7 if the default route moves, and nothing is known to lead to other pods
 * @internal
 */
export function planClusterRoutes(
  { links, routes, addresses }: RouteState,
  ifName: string,
  { ranges, moved }: WantedRoutes,
): RoutePlan {
  const index = links.find(({ name }) => name === ifName)?.index;
  const own = routes.filter(({ hops }) => hops.every((hop) => hop.ifIndex === index));
  const present = own.filter(isKeptRoute);
  const ofPlugins = own.filter((route) => !isKeptRoute(route) && !isDefault(route));
  const wayOf = (family: IpFamily): KernelRoute | undefined =>
    defaultsOf({ routes: own }, family).toSorted((a, b) => a.metric - b.metric)[0] ??
    present.find((route) => route.family === family);
  const toPods = [...ranges, ...ofPlugins.filter(hasGateway).map(({ dst }) => dst)];
  const lost = addresses.find(
    ({ ifIndex, family, isGlobal, address }) =>
      ifIndex === index &&
      isGlobal &&
      moved.includes(family) &&
      wayOf(family) !== undefined &&
      !toPods.some((range) => covers(range, address)),
  );
  if (lost !== undefined) {
    const message = `the default route moves to another network, and no range of clusterRoutes has the pod's address ${lost.address}`;
    throw new CniError("ClusterRangesUnknown", message);
  }
  const wanted = ranges.flatMap((range) => {
    const way = wayOf(range.family);
    const isServed = ofPlugins.some(({ dst }) => contains(dst, range));
    return way === undefined || isServed ? [] : [keptRoute(range, way)];
  });
  const removed = present.filter((route) => !hasSame(wanted, route));
  const added = wanted.filter((route) => !hasSame(present, route));
  return {
    edits: [
      ...removed.map((route) => ({ op: "del", route }) as const),
      ...added.map((route) => ({ op: "add", route }) as const),
    ],
    families: [4, 6],
  };
}

function hasGateway({ hops }: KernelRoute): boolean {
  return hops.some(({ gateway }) => gateway !== undefined);
}

function hasSame(routes: readonly KernelRoute[], { dst }: KernelRoute): boolean {
  return routes.some((each) => formatCidr(each.dst) === formatCidr(dst));
}
