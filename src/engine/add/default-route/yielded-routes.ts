import type { YieldedRoute } from "#engine/record/record.ts";
import { anyDestination, ipFamily } from "#lib/ip.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { metricsOf, newDefaultRoute } from "#netlink/routes.ts";
import { defaultRouteFamilies } from "#npwg/selection/default-route-families.ts";
import type { ChangedRoutes } from "./apply.ts";
import type { RoutePlan } from "./plan.ts";
import {
  defaultsOf,
  indexesOf,
  linkName,
  type RoutedAttachment,
  type RouteState,
} from "./route-state.ts";

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
  const routesIn = (state: Pick<RouteState, "links" | "routes">): YieldedRoute[] =>
    families.flatMap((family) => routesOf(state, attachment, family));
  const left = routesIn(after);
  return routesIn(before).filter((route) => !left.some((each) => isSame(each, route)));
}

/** The default routes that an attachment may lose to another one, and those that it has lost. */
export function routesToYield(
  state: RouteState,
  attachment: RoutedAttachment,
  lost: readonly YieldedRoute[],
): YieldedRoute[] {
  const present = ([4, 6] as const).flatMap((family) => routesOf(state, attachment, family));
  return [...lost, ...present.filter((route) => !lost.some((each) => isSame(each, route)))];
}

/** Adds the routes that attachments yielded, as far as they lack them and have their interfaces. */
export function planGivenBack(state: RouteState, yielded: readonly YieldedRoute[]): RoutePlan {
  const { links } = state;
  const edits = yielded.flatMap((route) => {
    const { dst, gw: gateway, dev, ...own } = route;
    const link = links.find(({ name }) => name === dev);
    const present = routesOf(state, { ifName: dev }, ipFamily(dst));
    if (link === undefined || present.some((each) => isSame(each, route))) return [];
    const ifIndex = link.index;
    const added = newDefaultRoute({ family: ipFamily(dst), ifIndex, gateway, ...own });
    return [{ op: "add", route: added, append: true } as const];
  });
  return { edits, families: [...new Set(yielded.map(({ dst }) => ipFamily(dst)))] };
}

function routesOf(
  state: Pick<RouteState, "links" | "routes">,
  attachment: RoutedAttachment,
  family: 4 | 6,
): YieldedRoute[] {
  const own = indexesOf([attachment], state);
  return defaultsOf(state, family).flatMap((route) =>
    route.hops
      .filter(({ ifIndex }) => own.has(ifIndex))
      .map(({ gateway: gw, ifIndex, onlink }) => {
        const dev = linkName(state.links, ifIndex);
        const { metric } = route;
        const metrics = metricsOf(route);
        return omitUndefined({ dst: anyDestination[family], gw, dev, metric, onlink, metrics });
      }),
  );
}

function isSame(a: YieldedRoute, b: YieldedRoute): boolean {
  return a.dst === b.dst && a.gw === b.gw && a.dev === b.dev && a.metric === b.metric;
}
