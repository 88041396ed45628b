import type { Result, ResultRoute } from "#cni/result/result.ts";
import { anyDestination, ipFamily, isDefaultRoute } from "#lib/ip.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { kernelMetric } from "#netlink/routes.ts";
import type { DefaultRoute, DefaultRoutesAfter } from "./routes-after.ts";

/**
 * Replaces a result's default routes of the changed families with the attachment's routes in the
 * kernel. Keeps gateways of addresses: they describe the network, not what the pod uses.
 */
export function withDefaultRoutes(result: Result, after: DefaultRoutesAfter | undefined): Result {
  if (after === undefined || after.families.length === 0) return result;
  const isDecided = (route: ResultRoute): boolean =>
    isDefaultRoute(route.dst) && isMainTable(route) && after.families.includes(ipFamily(route.dst));
  const reported = result.routes.filter(isDecided);
  const kept = result.routes.filter((route) => !isDecided(route));
  const defaults = after.routes.map(
    (route) => reported.find((entry) => isSame(entry, { route, result })) ?? toResultRoute(route),
  );
  return { ...result, routes: [...kept, ...defaults] };
}

/** 0 and absent are the kernel's unspecified table, which is main (254). */
function isMainTable({ table }: ResultRoute): boolean {
  return table === undefined || table === 0 || table === 254;
}

/** Whether the plugins reported this route; without a gateway, the address of its family has it. */
function isSame(
  entry: ResultRoute,
  { route, result }: { route: DefaultRoute; result: Result },
): boolean {
  if (ipFamily(entry.dst) !== route.family || metricOf(entry) !== route.metric) return false;
  const gateways = result.ips
    .filter(({ address }) => ipFamily(address) === route.family)
    .map(({ gateway }) => gateway);
  return entry.gw === undefined ? gateways.includes(route.gateway) : entry.gw === route.gateway;
}

function metricOf(entry: ResultRoute): number {
  return entry.priority ?? kernelMetric[ipFamily(entry.dst)];
}

function toResultRoute({ family, gateway, metric }: DefaultRoute): ResultRoute {
  return omitUndefined({
    dst: anyDestination[family],
    gw: gateway,
    priority: metric === kernelMetric[family] ? undefined : metric,
  });
}
