import type { InterfaceAnswer, JoinAnswer, StaticRoute } from "#docker/driver/protocol.ts";
import type { EndpointState, LinkRoute, LinkState, NetworkState } from "#docker/state.ts";
import {
  addressBits,
  covers,
  type IpFamily,
  ipFamily,
  isDefaultRoute,
  parseCidr,
  tryParseCidr,
} from "#lib/ip.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { hostIfName } from "./endpoint-host.ts";

/* How dockerd takes an interface over in staged mode: it sets addresses and routes after moving it. */

/**
 * The values of a new endpoint that dockerd does not know; it rejects values that it chose itself.
 * @throws Error when dockerd could not set the same addresses
 */
export function interfaceAnswer({ requested, link, displayName }: EndpointState): InterfaceAnswer {
  if (link === undefined) return {};
  const address = addressToHandOver(link, 4);
  const addressIPv6 = addressToHandOver(link, 6);
  for (const chosen of [requested.Address, requested.AddressIPv6]) {
    if (chosen !== undefined && !hasSubnetRoute(chosen, link.routes)) {
      throw new Error(
        `network ${displayName} reaches its subnet through a gateway, which Docker's IPAM cannot ` +
          "express; create it with --ipam-driver null",
      );
    }
  }
  // The kernel gives all ipvlan interfaces the MAC of their device.
  const mac = link.kind === "ipvlan" ? undefined : link.mac;
  return omitUndefined({
    Address: requested.Address === undefined ? address : undefined,
    AddressIPv6: requested.AddressIPv6 === undefined ? addressIPv6 : undefined,
    MacAddress: requested.MacAddress === undefined ? mac : undefined,
  });
}

/**
 * The address of a family that dockerd sets, together with a route to its subnet. If the kernel has
 * no such route, as with `ptp`, the address gets the prefix length of a single host.
 */
function addressToHandOver({ addresses, routes }: LinkState, family: IpFamily): string | undefined {
  const ofFamily = addresses.filter((address) => ipFamily(address) === family);
  const [first] = ofFamily;
  if (ofFamily.length > 1) {
    throw new Error(
      `moving the interface into its container would keep only one IPv${family} address of ` +
        `${ofFamily.join(", ")}; use -o plexus.mode=direct (Docker Engine 28 or later)`,
    );
  }
  if (first === undefined || hasSubnetRoute(first, routes)) return first;
  return `${parseCidr(first).address}/${addressBits[family]}`;
}

/** Whether the address's subnet is on the link. @throws RangeError for an invalid address */
function hasSubnetRoute(address: string, routes: readonly LinkRoute[]): boolean {
  const { address: ip, prefix, family } = parseCidr(address);
  return prefix === addressBits[family] || isOnLink(ip, routes, prefix);
}

interface NetworkEndpoint {
  readonly endpoint: EndpointState;
  readonly network: NetworkState;
}

/**
 * The interface and routes with which dockerd configures a container that joins. dockerd cannot add
 * a route twice. As with CNI plugins, the first wins: `others` are in the container already.
 */
export function joinAnswer(
  joining: NetworkEndpoint,
  others: readonly NetworkEndpoint[],
): JoinAnswer {
  const { endpoint, network } = joining;
  const { options } = network;
  const wanted = wantedRoutes(joining);
  const taken = new Set(others.flatMap(destinationsOf));
  const Gateway = defaultGateway(wanted, 4);
  const GatewayIPv6 = defaultGateway(wanted, 6);
  return {
    InterfaceName: omitUndefined({
      SrcName: hostIfName(endpoint.id),
      DstPrefix: options.ifPrefix,
      DstName: endpoint.wantedIfName,
    }),
    ...omitUndefined({ Gateway, GatewayIPv6 }),
    StaticRoutes: addedRoutes(joining)
      .filter(({ dst }) => !taken.has(dst))
      .map(staticRoute),
    DisableGatewayService: options.internal || options.gateway !== "docker",
  };
}

type Route = Pick<LinkRoute, "dst" | "gateway">;

/** Without default routes that the container must not get. */
function wantedRoutes({ endpoint, network: { options } }: NetworkEndpoint): LinkRoute[] {
  const usesDefault = options.gateway === "auto" && !options.internal;
  const routes = endpoint.link?.routes ?? [];
  return routes.filter((route) => usesDefault || !isDefaultRoute(route.dst));
}

/**
 * The routes that dockerd adds, one for each destination: it sets the routes of addresses and
 * default gateways itself. Routes on the link come first: routes through gateways may need them.
 */
function addedRoutes(joining: NetworkEndpoint): Route[] {
  const wanted = wantedRoutes(joining);
  const added = wanted.filter(
    (route) => !route.isFromAddress && !(isDefaultRoute(route.dst) && route.gateway !== undefined),
  );
  const gateways = [defaultGateway(wanted, 4), defaultGateway(wanted, 6)];
  const used = new Set([...added.map(({ gateway }) => gateway), ...gateways]);
  const onLink = joining.endpoint.link?.routes ?? [];
  const unreachable = [...used].flatMap((ip) =>
    ip === undefined || isOnLink(ip, onLink) ? [] : { dst: `${ip}/${addressBits[ipFamily(ip)]}` },
  );
  const byMetric = added.toSorted((a, b) => a.metric - b.metric);
  const routes: Route[] = [
    ...unreachable,
    ...byMetric.filter(({ gateway }) => gateway === undefined),
    ...byMetric.filter(({ gateway }) => gateway !== undefined),
  ];
  return routes.filter(({ dst }, i) => routes.findIndex((each) => each.dst === dst) === i);
}

/** The destinations of the routes that an endpoint has in its container. */
function destinationsOf(joined: NetworkEndpoint): string[] {
  const { mode, link } = joined.endpoint;
  const own = (link?.routes ?? []).filter(
    ({ isFromAddress }) => mode === "direct" || isFromAddress,
  );
  return [...own, ...addedRoutes(joined)].map(({ dst }) => dst);
}

function staticRoute({ dst, gateway }: Route): StaticRoute {
  if (gateway === undefined) return { Destination: dst, RouteType: 1 };
  return { Destination: dst, RouteType: 0, NextHop: gateway };
}

/** The gateway of the default route that the kernel prefers. */
function defaultGateway(routes: readonly LinkRoute[], family: IpFamily): string | undefined {
  const candidates = routes.filter(
    ({ dst, gateway }) => isDefaultRoute(dst) && ipFamily(dst) === family && gateway !== undefined,
  );
  return candidates.toSorted((a, b) => a.metric - b.metric)[0]?.gateway;
}

/** Whether a route without a gateway, to a subnet of this size if given, covers an address. */
function isOnLink(ip: string, routes: readonly LinkRoute[], prefix?: number): boolean {
  return routes.some(({ dst, gateway }) => {
    const subnet = gateway === undefined ? tryParseCidr(dst) : undefined;
    return (
      subnet !== undefined && subnet.prefix === (prefix ?? subnet.prefix) && covers(subnet, ip)
    );
  });
}
