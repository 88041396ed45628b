import {
  DriverError,
  type InterfaceAnswer,
  type JoinAnswer,
  type StaticRoute,
} from "#docker/driver/protocol.ts";
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
 * The values of a new endpoint that dockerd does not know; it rejects those that it chose itself.
 * @throws DriverError when dockerd could not set the interface's addresses as they are
 */
export function interfaceAnswer({ requested, link, displayName }: EndpointState): InterfaceAnswer {
  if (link === undefined) return {};
  const address = addressToHandOver(link, 4);
  const addressIPv6 = addressToHandOver(link, 6);
  for (const chosen of [requested.Address, requested.AddressIPv6]) {
    if (chosen !== undefined && !hasSubnetRoute(chosen, link.routes)) {
      throw new DriverError(
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
    throw new DriverError(
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

/** The interface and routes with which dockerd configures a container that joins. */
export function joinAnswer(endpoint: EndpointState, { options }: NetworkState): JoinAnswer {
  const routes = endpoint.link?.routes ?? [];
  const usesDefault = options.gateway === "auto" && !options.internal;
  const wanted = routes.filter((route) => usesDefault || !isDefaultRoute(route.dst));
  const Gateway = defaultGateway(wanted, 4);
  const GatewayIPv6 = defaultGateway(wanted, 6);
  // dockerd sets the routes of addresses and default gateways itself.
  const others = wanted.filter(
    (route) => !route.isFromAddress && !(isDefaultRoute(route.dst) && route.gateway !== undefined),
  );
  const gateways = new Set([...others.map(({ gateway }) => gateway), Gateway, GatewayIPv6]);
  const unreachable = [...gateways].filter((ip) => ip !== undefined && !isOnLink(ip, routes));
  return {
    InterfaceName: omitUndefined({
      SrcName: hostIfName(endpoint.id),
      DstPrefix: options.ifPrefix,
      DstName: endpoint.wantedIfName,
    }),
    ...omitUndefined({ Gateway, GatewayIPv6 }),
    // Routes on the link come first: routes through gateways may need them.
    StaticRoutes: [
      ...unreachable.map((ip = "") => staticRoute({ dst: `${ip}/${addressBits[ipFamily(ip)]}` })),
      ...others.filter(({ gateway }) => gateway === undefined).map(staticRoute),
      ...others.filter(({ gateway }) => gateway !== undefined).map(staticRoute),
    ],
    DisableGatewayService: options.internal || options.gateway !== "docker",
  };
}

function staticRoute({ dst, gateway }: Pick<LinkRoute, "dst" | "gateway">): StaticRoute {
  if (gateway === undefined) return { Destination: dst, RouteType: 1 };
  return { Destination: dst, RouteType: 0, NextHop: gateway };
}

/** The gateway of the default route that the kernel prefers. */
function defaultGateway(routes: readonly LinkRoute[], family: IpFamily): string | undefined {
  const candidates = routes.filter(({ dst, gateway }) => {
    const cidr = tryParseCidr(dst);
    return cidr?.prefix === 0 && cidr.family === family && gateway !== undefined;
  });
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
