import { CniError } from "#cni/error.ts";
import { covers } from "#lib/ip.ts";
import type { Link } from "#netlink/links.ts";
import { kernelMetric } from "#netlink/routes.ts";
import { defaultsOf, type FamilyContext, linkName, type RouteState } from "./route-state.ts";

/**
 * Whether a default route needs `onlink` for the kernel to accept its gateway. The kernel looks for
 * a route of this interface that has no gateway itself and is not a default route. Link-local IPv6
 * is on every link. The gateway of an `onlink` route that the attachment already has is accepted,
 * too.
 * @throws CniError 100 when the kernel would refuse the gateway
 */
export function needsOnlink(
  state: RouteState,
  { link, gateway }: { link: Link; gateway: string },
): boolean {
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
export function checkUnowned(
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
