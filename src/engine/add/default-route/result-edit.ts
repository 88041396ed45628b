import type { Result, ResultRoute } from "#cni/result/result.ts";
import { anyDestination, type IpFamily, ipFamily, isDefaultRoute } from "#lib/ip.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { kernelMetric } from "#netlink/routes.ts";
import { defaultHops, type KernelRoutes, type RoutedAttachment } from "./route-state.ts";

/** The kernel's routes after all edits. */
export interface RoutesAfter extends KernelRoutes {
  /** The families whose default routes were decided on; the others are left as reported. */
  readonly families: readonly IpFamily[];
}

/**
 * Replaces a result's default routes of the changed families with the attachment's routes in the
 * kernel. Keeps gateways of addresses: they describe the network, not what the pod uses.
 */
export function withDefaultRoutes(
  result: Result,
  attachment: RoutedAttachment,
  after: RoutesAfter,
): Result {
  const isDecided = (route: ResultRoute): boolean =>
    isDefaultRoute(route.dst) && isMainTable(route) && after.families.includes(ipFamily(route.dst));
  const reported = result.routes.filter(isDecided);
  const kept = result.routes.filter((route) => !isDecided(route));
  const defaults = defaultHops(after, attachment, after.families).map(({ route, hop }) => {
    const { family, metric } = route;
    const priority = metric === kernelMetric[family] ? undefined : metric;
    const now = omitUndefined({ dst: anyDestination[family], gw: hop.gateway, priority });
    return reported.find((entry) => isSame(entry, { route: now, result })) ?? now;
  });
  return { ...result, routes: [...kept, ...defaults] };
}

/** 0 and absent are the kernel's unspecified table, which is main (254). */
export function isMainTable({ table }: ResultRoute): boolean {
  return table === undefined || table === 0 || table === 254;
}

/** Whether the plugins reported this route; without a gateway, the address of its family has it. */
function isSame(
  entry: ResultRoute,
  { route, result }: { route: ResultRoute; result: Result },
): boolean {
  const family = ipFamily(route.dst);
  if (ipFamily(entry.dst) !== family || metricOf(entry) !== metricOf(route)) return false;
  const gateways = result.ips
    .filter(({ address }) => ipFamily(address) === family)
    .map(({ gateway }) => gateway);
  return entry.gw === undefined ? gateways.includes(route.gw) : entry.gw === route.gw;
}

function metricOf({ dst, priority }: ResultRoute): number {
  return priority ?? kernelMetric[ipFamily(dst)];
}
