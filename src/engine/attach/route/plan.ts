import { type IpFamily, ipFamily, parseIp } from "#lib/ip.ts";
import { covers } from "#netlink/ip-bytes.ts";
import { type InterfaceAddress, type Link, linkUp } from "#netlink/links.ts";
import {
  type Hop,
  isDefault,
  type KernelRoute,
  kernelMetric,
  newDefaultRoute,
  withHops,
} from "#netlink/routes.ts";
import { invalidRoute } from "./route-error.ts";

/** An attachment, as far as it matters for the pod's default route. */
export interface RoutedAttachment {
  readonly ifName: string;
  /** Its other interfaces in the pod, where it has several. */
  readonly otherIfNames?: readonly string[];
  /** The gateways of its `default-route` key; absent when the attachment has none. */
  readonly requested?: readonly string[] | undefined;
}

/** The state of the kernel; routes of the main table only. */
export interface RouteState {
  readonly links: readonly Link[];
  readonly addresses: readonly InterfaceAddress[];
  readonly routes: readonly KernelRoute[];
}

/** One change of the routes. */
export interface RouteEdit {
  readonly op: "add" | "del";
  readonly route: KernelRoute;
  /** Put back behind others of the same metric instead of being refused: what is left of a multipath route. */
  readonly append?: boolean;
}

/** The changes, and the families whose default route they decide. */
interface RoutePlan {
  readonly edits: readonly RouteEdit[];
  readonly families: readonly IpFamily[];
}

/** The attachment that requests the default route. @throws RouteError 100 when there are several */
export function selectedAttachment(
  attachments: readonly RoutedAttachment[],
): RoutedAttachment | undefined {
  const [first, second] = attachments.filter(({ requested }) => requested !== undefined);
  if (first === undefined || second === undefined) return first;
  throw invalidRoute(
    `both ${first.ifName} and ${second.ifName} are to have the default route; only one attachment can`,
  );
}

/**
 * Decides how the default route moves to the attachment that the pod selected for it
 * (multi-network specification v1.1 §4.1.2.1.9). Each family by itself:
 *
 * - Named gateways replace the attachment's own default routes, in the order of their metrics; the other
 *   attachments lose theirs. A family without a named gateway is not changed.
 * - An empty list keeps the attachment's own default routes; the other attachments lose theirs of
 *   the families in which this one has any. (Multus takes them from every interface.)
 *
 * Routes of interfaces that belong to no attachment are left alone. Nothing is changed unless all of
 * it can be: a gateway that is not on the attachment's link is refused here.
 *
 * @throws RouteError 100
 */
export function planDefaultRoute(
  state: RouteState,
  attachments: readonly RoutedAttachment[],
): RoutePlan {
  const selected = selectedAttachment(attachments);
  if (selected === undefined) return { edits: [], families: [] };
  const others = attachments.filter((attachment) => attachment !== selected);
  const link = state.links.find(({ name }) => name === selected.ifName);
  const requested = [...new Set((selected.requested ?? []).map(parseIp))];
  const plans = ([4, 6] as const).flatMap((family) => {
    const gateways = requested.filter((gateway) => ipFamily(gateway) === family);
    const isEmptyList = requested.length === 0;
    if (gateways.length === 0 && !isEmptyList) return [];
    const context = {
      state,
      family,
      link,
      ifName: selected.ifName,
      losing: indexesOf(others, state),
    };
    const edits = isEmptyList ? keepOwn(context) : useGateways(context, gateways);
    return edits === undefined ? [] : [{ family, edits }];
  });
  const edits = plans.flatMap((plan) => plan.edits);
  return {
    edits: [...edits.filter(({ op }) => op === "del"), ...edits.filter(({ op }) => op === "add")],
    families: plans.map(({ family }) => family),
  };
}

function indexesOf(
  attachments: readonly RoutedAttachment[],
  state: RouteState,
): ReadonlySet<number> {
  const names = attachments.flatMap(({ ifName, otherIfNames = [] }) => [ifName, ...otherIfNames]);
  return new Set(state.links.filter(({ name }) => names.includes(name)).map(({ index }) => index));
}

interface FamilyContext {
  readonly state: RouteState;
  readonly family: IpFamily;
  /** The selected attachment's interface; undefined when it has none in the pod. */
  readonly link: Link | undefined;
  readonly ifName: string;
  /** The interfaces of the other attachments. */
  readonly losing: ReadonlySet<number>;
}

function keepOwn({ state, family, link, losing }: FamilyContext): RouteEdit[] | undefined {
  const defaults = defaultsOf(state, family);
  const hasOwn = defaults.some(({ hops }) => hops.some(({ ifIndex }) => ifIndex === link?.index));
  if (!hasOwn) return undefined;
  return defaults.flatMap((route) => withoutHops(route, ({ ifIndex }) => losing.has(ifIndex)));
}

function useGateways(context: FamilyContext, gateways: readonly string[]): RouteEdit[] {
  const { state, family, link, ifName, losing } = context;
  if (link === undefined)
    throw invalidRoute(`default route through ${ifName}: the pod has no such interface`);
  if ((link.flags & linkUp) === 0)
    throw invalidRoute(`default route through ${ifName}: the interface is down`);
  const wanted = gateways.map((gateway, order) => {
    const onlink = needsOnlink(state, { link, gateway });
    const metric = kernelMetric[family] + order;
    return newDefaultRoute({ family, ifIndex: link.index, gateway, metric, onlink });
  });
  const defaults = defaultsOf(state, family);
  checkUnowned(context, wanted.length);
  const present = defaults.filter((route) => wanted.some((want) => sameWay(route, want)));
  const removed = defaults
    .filter((route) => !present.includes(route))
    .flatMap((route) =>
      withoutHops(route, ({ ifIndex }) => losing.has(ifIndex) || ifIndex === link.index),
    );
  const missing = wanted.filter((want) => !present.some((route) => sameWay(route, want)));
  return [...removed, ...missing.map((route) => ({ op: "add", route }) as const)];
}

function defaultsOf(state: RouteState, family: IpFamily): KernelRoute[] {
  return state.routes.filter((route) => route.family === family && isDefault(route));
}

/** The edits that remove hops from a route: none, its removal, or its replacement by the other hops. */
function withoutHops(route: KernelRoute, isRemoved: (hop: Hop) => boolean): RouteEdit[] {
  const kept = route.hops.filter((hop) => !isRemoved(hop));
  if (kept.length === route.hops.length) return [];
  const del: RouteEdit = { op: "del", route };
  return kept.length === 0
    ? [del]
    : [del, { op: "add", route: withHops(route, kept), append: true }];
}

function sameWay(a: KernelRoute, b: KernelRoute): boolean {
  const [hop, ...more] = a.hops;
  const [other] = b.hops;
  if (hop === undefined || other === undefined || more.length > 0) return false;
  return a.metric === b.metric && hop.ifIndex === other.ifIndex && hop.gateway === other.gateway;
}

/**
 * Whether the route needs `onlink` for the kernel to take its gateway; refuses one that it would
 * not take. The kernel looks for a route of this interface that has no gateway itself and is no default
 * route; link-local IPv6 is on every link; the gateway of an `onlink` route of the attachment's own needs none.
 */
function needsOnlink(
  state: RouteState,
  { link, gateway }: { link: Link; gateway: string },
): boolean {
  if (state.addresses.some(({ address }) => address === gateway)) {
    throw invalidRoute(
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
  throw invalidRoute(
    `default route through ${link.name}: gateway ${gateway} is not in any network of the interface`,
  );
}

/** A default route that belongs to no attachment stays, and must not win over those that are to be set. */
function checkUnowned({ state, family, link, losing }: FamilyContext, count: number): void {
  const worst = kernelMetric[family] + count - 1;
  for (const route of defaultsOf(state, family)) {
    const hop = route.hops.find(({ ifIndex }) => !losing.has(ifIndex) && ifIndex !== link?.index);
    if (hop === undefined || route.metric > worst) continue;
    const name = state.links.find(({ index }) => index === hop.ifIndex)?.name ?? `#${hop.ifIndex}`;
    throw invalidRoute(
      `default route through ${link?.name}: interface ${name}, which belongs to no attachment, has the pod's IPv${family} default route`,
    );
  }
}
