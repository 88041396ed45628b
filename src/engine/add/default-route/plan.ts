import { isDeepStrictEqual } from "node:util";
import { CniError } from "#cni/error.ts";
import { covers, type IpFamily, ipFamily, parseIp } from "#lib/ip.ts";
import { type Link, linkUp } from "#netlink/links.ts";
import { type KernelRoute, kernelMetric, newDefaultRoute, withHops } from "#netlink/routes.ts";
import { defaultRouteFamilies } from "#npwg/selection/network-selection.ts";
import {
  defaultsOf,
  indexesOf,
  type KernelRoutes,
  linkName,
  type RoutedAttachment,
  type RouteState,
} from "./route-state.ts";

/** One change of the routes. */
export interface RouteEdit {
  readonly op: "add" | "del";
  readonly route: KernelRoute;
  /** Append it to others of the same metric: the rest of a multipath route. @default false */
  readonly append?: boolean;
}

/** How default routes change; only those of the families are decided on. */
export interface RoutePlan {
  readonly edits: readonly RouteEdit[];
  readonly families: readonly IpFamily[];
}

/** The default route of one address family, for a decision. */
interface FamilyContext {
  readonly state: RouteState;
  readonly family: IpFamily;
  readonly link: Link | undefined;
  readonly ifName: string;
  /** The interfaces of the selected attachment. */
  readonly own: ReadonlySet<number>;
  /** The interfaces of the other attachments. */
  readonly losing: ReadonlySet<number>;
}

/**
 * Decides how the default route moves to the attachments that the pod selected (multi-network
 * specification v1.1 §4.1.2.1.9), at most one for each family separately:
 * - Named gateways replace the attachment's own default routes, in the order of their metrics; the
 *   other attachments lose theirs. A family without a named gateway is not changed.
 * - With an empty list the attachment keeps its own, or gets what its plugins report and did not
 *   set; the others lose theirs of the same families. (Multus takes them from every interface.)
 * Routes of interfaces without an attachment stay. A gateway that is not on the link is refused
 * before any change.
 * @throws CniError 100
 */
export function planDefaultRoute(
  state: RouteState,
  attachments: readonly RoutedAttachment[],
): RoutePlan {
  const plans = ([4, 6] as const).flatMap((family) => {
    const selected = attachments.find(({ requested }) =>
      defaultRouteFamilies(requested).includes(family),
    );
    if (selected?.requested === undefined) return [];
    const others = attachments.filter((attachment) => attachment !== selected);
    const { ifName, requested, gateways = [] } = selected;
    const link = state.links.find(({ name }) => name === ifName);
    const own = ownIndexes(
      state,
      selected,
      others.map((other) => other.ifName),
    );
    const losing = indexesOf(others, state).difference(own);
    const context = { state, family, link, ifName, own, losing };
    const isNamed = requested.length > 0;
    const ips = new Set((isNamed ? requested : gateways).map(parseIp));
    const ways = [...ips].filter((ip) => ipFamily(ip) === family);
    const kept = isNamed ? undefined : keepOwn(context);
    // A user-space driver's interface has no routes.
    const isVain = !isNamed && (link === undefined || ways.length === 0);
    if (kept === undefined && isVain) return [];
    return [{ family, edits: kept ?? useGateways(context, ways) }];
  });
  const edits = plans.flatMap((plan) => plan.edits);
  return {
    edits: [...edits.filter(({ op }) => op === "del"), ...edits.filter(({ op }) => op === "add")],
    families: plans.map(({ family }) => family),
  };
}

/**
 * Removes the default routes of an attachment, of each family for which another interface has one.
 * @param others the interfaces of the other attachments
 */
export function planWithoutDefaults(
  state: KernelRoutes,
  attachment: RoutedAttachment,
  others: readonly string[],
): RoutePlan {
  const own = ownIndexes(state, attachment, others);
  const families = ([4, 6] as const).filter((family) =>
    defaultsOf(state, family).some(({ hops }) => hops.some(({ ifIndex }) => !own.has(ifIndex))),
  );
  const edits = families.flatMap((family) => withoutHops(defaultsOf(state, family), own));
  return { edits, families };
}

/** A result may also name an interface of another attachment, which that one keeps. */
function ownIndexes(
  state: KernelRoutes,
  attachment: RoutedAttachment,
  others: readonly string[],
): ReadonlySet<number> {
  const named = others.map((ifName) => ({ ifName }));
  return indexesOf([attachment], state).difference(indexesOf(named, state));
}

function keepOwn({ state, family, own, losing }: FamilyContext): RouteEdit[] | undefined {
  const defaults = defaultsOf(state, family);
  const hasOwn = defaults.some(({ hops }) => hops.some(({ ifIndex }) => own.has(ifIndex)));
  if (!hasOwn) return undefined;
  return withoutHops(defaults, losing);
}

function useGateways(context: FamilyContext, gateways: readonly string[]): RouteEdit[] {
  const { state, family, link, ifName, own, losing } = context;
  if (link === undefined)
    throw new CniError(
      "InvalidRequest",
      `default route through ${ifName}: the pod has no such interface`,
    );
  if ((link.flags & linkUp) === 0)
    throw new CniError("InvalidRequest", `default route through ${ifName}: the interface is down`);
  const wanted = gateways.map((gateway, order) => {
    const onlink = needsOnlink(state, link, gateway);
    const metric = kernelMetric[family] + order;
    return newDefaultRoute({ family, ifIndex: link.index, gateway, metric, onlink });
  });
  const defaults = defaultsOf(state, family);
  checkUnowned({ ...context, link }, wanted.length);
  const present = defaults.filter((route) => wanted.some((want) => sameWay(route, want)));
  const others = defaults.filter((route) => !present.includes(route));
  const removed = withoutHops(others, losing.union(own));
  const missing = wanted.filter((want) => !present.some((route) => sameWay(route, want)));
  return [...removed, ...missing.map((route) => ({ op: "add", route }) as const)];
}

/** The edits that remove the hops of interfaces: none, a route's removal, or one without them. */
function withoutHops(routes: readonly KernelRoute[], interfaces: ReadonlySet<number>): RouteEdit[] {
  return routes.flatMap((route) => {
    const kept = route.hops.filter(({ ifIndex }) => !interfaces.has(ifIndex));
    if (kept.length === route.hops.length) return [];
    const del: RouteEdit = { op: "del", route };
    if (kept.length === 0) return [del];
    return [del, { op: "add", route: withHops(route, kept), append: true }];
  });
}

function sameWay(a: KernelRoute, b: KernelRoute): boolean {
  const ways = ({ hops }: KernelRoute) => hops.map(({ ifIndex, gateway }) => [ifIndex, gateway]);
  return a.metric === b.metric && isDeepStrictEqual(ways(a), ways(b));
}

/**
 * Whether a default route needs `onlink` for the kernel to accept its gateway. The kernel looks for
 * a route of this interface that has no gateway itself and is not a default route. Link-local IPv6
 * is on every link. The gateway of an `onlink` route that the attachment already has is accepted,
 * too.
 * @throws CniError 100 when the kernel would refuse the gateway
 */
function needsOnlink(state: RouteState, link: Link, gateway: string): boolean {
  if (state.addresses.some(({ address }) => address === gateway)) {
    throw new CniError(
      "UnreachableGateway",
      `default route through ${link.name}: gateway ${gateway} is the pod's own address`,
    );
  }
  if (covers({ address: "fe80::", prefix: 10 }, gateway)) return false;
  const own = state.routes.flatMap(({ dst, hops }) =>
    hops.filter(({ ifIndex }) => ifIndex === link.index).map((hop) => ({ dst, hop })),
  );
  const isOnLink = own.some(
    ({ dst, hop }) => hop.gateway === undefined && dst.prefix > 0 && covers(dst, gateway),
  );
  if (isOnLink) return false;
  if (own.some(({ hop }) => hop.onlink && hop.gateway === gateway)) return true;
  throw new CniError(
    "UnreachableGateway",
    `default route through ${link.name}: gateway ${gateway} is not in any network of the interface`,
  );
}

/** @throws CniError 100 when a default route of no attachment, which stays, would be preferred */
function checkUnowned(
  { state, family, link, own, losing }: FamilyContext & { readonly link: Link },
  count: number,
): void {
  const worst = kernelMetric[family] + count - 1;
  for (const route of defaultsOf(state, family)) {
    const hop = route.hops.find(({ ifIndex }) => !losing.has(ifIndex) && !own.has(ifIndex));
    if (hop === undefined || route.metric > worst) continue;
    const name = linkName(state.links, hop.ifIndex);
    throw new CniError(
      "DefaultRouteTaken",
      `default route through ${link.name}: interface ${name}, which belongs to no attachment, has the pod's IPv${family} default route`,
    );
  }
}
