import type { YieldedRoute } from "#engine/record/record.ts";
import { anyDestination, type IpFamily, ipFamily } from "#lib/ip.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { metricsOf, newDefaultRoute } from "#netlink/routes.ts";
import { defaultRouteFamilies } from "#npwg/selection/default-route-families.ts";
import type { ChangedRoutes } from "./apply.ts";
import type { RoutePlan } from "./plan.ts";
import { defaultHops, type KernelRoutes, linkName, type RoutedAttachment } from "./route-state.ts";

/*
 * An attachment whose element has `default-route` takes the default routes of the others
 * (multi-network specification v1.1 §4.1.2.1.9). When hot-plug removes it, they get them back.
 */

/** The default routes that a change has taken from an attachment that requests none of them. */
export function yieldedRoutes(
  { before, after }: ChangedRoutes,
  attachment: RoutedAttachment,
): YieldedRoute[] {
  const own = defaultRouteFamilies(attachment.requested);
  const families = after.families.filter((family) => !own.includes(family));
  return without(routesOf(before, attachment, families), routesOf(after, attachment, families));
}

/** The default routes that an attachment may lose to another one, and those that it has lost. */
export function routesToYield(
  state: KernelRoutes,
  attachment: RoutedAttachment,
  lost: readonly YieldedRoute[],
): YieldedRoute[] {
  return [...lost, ...without(routesOf(state, attachment, [4, 6]), lost)];
}

/** Adds the routes that attachments yielded, as far as they lack them and have their interfaces. */
export function planGivenBack(state: KernelRoutes, yielded: readonly YieldedRoute[]): RoutePlan {
  const edits = yielded.flatMap((route) => {
    const { dst, gw: gateway, dev, ...own } = route;
    const family = ipFamily(dst);
    const link = state.links.find(({ name }) => name === dev);
    const lacks = without([route], routesOf(state, { ifName: dev }, [family])).length > 0;
    if (link === undefined || !lacks) return [];
    const added = newDefaultRoute({ family, ifIndex: link.index, gateway, ...own });
    return [{ op: "add", route: added, append: true } as const];
  });
  return { edits, families: [...new Set(yielded.map(({ dst }) => ipFamily(dst)))] };
}

function routesOf(
  state: KernelRoutes,
  attachment: RoutedAttachment,
  families: readonly IpFamily[],
): YieldedRoute[] {
  return defaultHops(state, attachment, families).map(({ route, hop }) => {
    const { gateway: gw, ifIndex, onlink } = hop;
    const dev = linkName(state.links, ifIndex);
    const { family, metric } = route;
    const metrics = metricsOf(route);
    return omitUndefined({ dst: anyDestination[family], gw, dev, metric, onlink, metrics });
  });
}

/** The routes that are not among the others, whose MTU and the like may differ. */
function without(all: readonly YieldedRoute[], others: readonly YieldedRoute[]): YieldedRoute[] {
  const way = ({ dst, gw, dev, metric }: YieldedRoute) => [dst, gw, dev, metric].join();
  const ways = new Set(others.map(way));
  return all.filter((route) => !ways.has(way(route)));
}
