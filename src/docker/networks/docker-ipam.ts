import { DriverError } from "#docker/driver/protocol.ts";
import { anyDestination, type IpFamily, parseIp, tryParseCidr } from "#lib/ip.ts";
import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/** The addresses that Docker's IPAM chose for an endpoint, and its gateways. */
export interface DockerAddresses {
  /** With prefix length. */
  readonly address?: string;
  readonly addressIPv6?: string;
  /** Without prefix length. */
  readonly gateway?: string;
  readonly gatewayIPv6?: string;
}

/**
 * Replaces the IPAM of the first plugin with `static` and the given addresses. The network's routes
 * stay; a network without IPAM gets a default route through each gateway.
 * @throws DriverError when the configuration has no plugin
 */
export function withDockerAddresses(conf: JsonObject, addresses: DockerAddresses): JsonObject {
  const [first, ...others] = Array.isArray(conf.plugins) ? conf.plugins : [];
  if (!isJsonObject(first)) throw new DriverError("the network has no plugin");
  const { address, addressIPv6, gateway, gatewayIPv6 } = addresses;
  const chosen = [
    ...(address === undefined ? [] : [omitUndefined({ address, gateway })]),
    ...(addressIPv6 === undefined
      ? []
      : [omitUndefined({ address: addressIPv6, gateway: gatewayIPv6 })]),
  ];
  const ipam = { type: "static", addresses: chosen, routes: routesOf(first.ipam, addresses) };
  return { ...conf, plugins: [{ ...first, ipam }, ...others] };
}

/** The routes of the network's IPAM for the families that have an address. */
function routesOf(ipam: Json | undefined, addresses: DockerAddresses): Json[] {
  if (!isJsonObject(ipam) || typeof ipam.type !== "string") {
    const byGateway = (gateway: string | undefined, family: IpFamily): Json[] =>
      gateway === undefined ? [] : [{ dst: anyDestination[family] }];
    return [...byGateway(addresses.gateway, 4), ...byGateway(addresses.gatewayIPv6, 6)];
  }
  const { address, addressIPv6 } = addresses;
  const routes = Array.isArray(ipam.routes) ? ipam.routes : [];
  return routes.filter((route) => {
    const dst = isJsonObject(route) ? route.dst : undefined;
    const family = typeof dst === "string" ? tryParseCidr(dst)?.family : undefined;
    return (family === 6 ? addressIPv6 : address) !== undefined;
  });
}

/** A gateway's address; dockerd writes it with a prefix length. */
export function gatewayAddress(text: string | undefined): string | undefined {
  return text === undefined ? undefined : (tryParseCidr(text)?.address ?? parseIp(text));
}
