import type { JoinAnswer, StaticRoute } from "#docker/driver/answers.ts";
import { DriverError } from "#docker/driver-error.ts";
import type { LinkRoute, LinkState } from "#docker/netns/namespaces.ts";
import type { GatewayChoice } from "#docker/networks/network-options.ts";
import { addressBits, covers, type IpFamily, ipFamily, parseCidr, tryParseCidr } from "#lib/ip.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/** The addresses of an interface that the engine sets again after it has moved it. */
export interface HandedOverAddresses {
  readonly address?: string;
  readonly addressIPv6?: string;
}

/**
 * The addresses with which the engine can take an interface over. It sets one of each family, and with it
 * a route to its subnet. Where the kernel has no such route, as with `ptp`, the address is given without
 * its subnet.
 * @throws DriverError when an interface has more addresses than the engine can set
 */
export function addressesToHandOver(state: LinkState): HandedOverAddresses {
  return omitUndefined({
    address: addressToHandOver(state, 4),
    addressIPv6: addressToHandOver(state, 6),
  });
}

function addressToHandOver(state: LinkState, family: IpFamily): string | undefined {
  const own = state.addresses.filter((address) => ipFamily(address) === family);
  const [first] = own;
  if (own.length > 1) {
    throw new DriverError(
      `an interface that is moved into its container keeps one IPv${family} address, and this one has ${own.join(", ")}; use -o plexus.mode=direct (Docker Engine 28 or later)`,
    );
  }
  if (first === undefined || hasSubnetRoute(first, state.routes)) return first;
  return `${parseCidr(first).address}/${addressBits[family]}`;
}

/**
 * Whether everything in the address's subnet counts as on the link.
 * @throws RangeError when it is none
 */
export function hasSubnetRoute(address: string, routes: readonly LinkRoute[]): boolean {
  const { address: ip, prefix, family } = parseCidr(address);
  if (prefix === addressBits[family]) return true;
  return routes.some(({ dst, gateway }) => {
    const subnet = tryParseCidr(dst);
    return gateway === undefined && subnet?.prefix === prefix && covers(subnet, ip);
  });
}

/** What of a Join answer follows from the routes of an interface. */
type Routing = Pick<
  JoinAnswer,
  "Gateway" | "GatewayIPv6" | "StaticRoutes" | "DisableGatewayService"
>;

/**
 * The routes with which the engine can take an interface over. Those that follow from an address are left
 * out, as the engine sets the address. Routes on the link come first: others may need them.
 * `choice` says who gives the default route.
 */
export function routesToHandOver(routes: readonly LinkRoute[], choice: GatewayChoice): Routing {
  const isDefault = (route: LinkRoute): boolean => tryParseCidr(route.dst)?.prefix === 0;
  const wanted = routes.filter((route) => choice === "auto" || !isDefault(route));
  const gateways = ([4, 6] as const).map((family) => defaultGateway(wanted, family));
  const [Gateway, GatewayIPv6] = gateways;
  const others = wanted.filter(
    (route) => !route.isFromAddress && !(isDefault(route) && route.gateway !== undefined),
  );
  const used = [
    ...others.flatMap(({ gateway }) => gateway ?? []),
    ...gateways.flatMap((g) => g ?? []),
  ];
  const unreachable = used.filter((gateway) => !isOnLink(gateway, routes));
  return omitUndefined({
    Gateway,
    GatewayIPv6,
    StaticRoutes: [
      ...[...new Set(unreachable)].map(hostRoute),
      ...others.filter(({ gateway }) => gateway === undefined).map(staticRoute),
      ...others.filter(({ gateway }) => gateway !== undefined).map(staticRoute),
    ],
    DisableGatewayService: choice !== "docker",
  });
}

/** The gateway of the default route that the kernel prefers. */
function defaultGateway(routes: readonly LinkRoute[], family: IpFamily): string | undefined {
  const own = routes.filter(({ dst, gateway }) => {
    const cidr = tryParseCidr(dst);
    return cidr?.prefix === 0 && cidr.family === family && gateway !== undefined;
  });
  return own.toSorted((a, b) => a.metric - b.metric)[0]?.gateway;
}

function isOnLink(gateway: string, routes: readonly LinkRoute[]): boolean {
  return routes.some((route) => {
    const subnet = tryParseCidr(route.dst);
    return route.gateway === undefined && subnet !== undefined && covers(subnet, gateway);
  });
}

function hostRoute(address: string): StaticRoute {
  return { Destination: `${address}/${addressBits[ipFamily(address)]}`, RouteType: 1 };
}

function staticRoute({ dst, gateway }: LinkRoute): StaticRoute {
  if (gateway === undefined) return { Destination: dst, RouteType: 1 };
  return { Destination: dst, RouteType: 0, NextHop: gateway };
}
