import { DriverError } from "#docker/driver-error.ts";
import { anyDestination, parseIp, tryParseCidr } from "#lib/ip.ts";
import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";

/** The addresses that the engine's own IPAM has chosen for an endpoint, and its gateways. */
export interface DockerAddresses {
  /** With prefix length. */
  readonly address?: string;
  readonly addressIPv6?: string;
  /** Without prefix length. */
  readonly gateway?: string;
  readonly gatewayIPv6?: string;
}

/**
 * The configuration with addresses that are already chosen: its first plugin gets them from the plugin
 * `static` in place of its own IPAM plugin, whose routes stay. A network without IPAM gets a default route
 * by each gateway.
 * @throws DriverError when the configuration has no plugin
 */
export function withDockerAddresses(conf: JsonObject, addresses: DockerAddresses): JsonObject {
  const plugins = Array.isArray(conf.plugins) ? conf.plugins : [];
  const [first, ...others] = plugins;
  if (!isJsonObject(first)) throw new DriverError("the network has no plugin");
  const ipam = staticIpam(first.ipam, addresses);
  return { ...conf, plugins: [{ ...first, ipam }, ...others] };
}

function staticIpam(original: Json | undefined, addresses: DockerAddresses): JsonObject {
  const { address, addressIPv6, gateway, gatewayIPv6 } = addresses;
  const chosen = [
    ...(address === undefined ? [] : [assigned(address, gateway)]),
    ...(addressIPv6 === undefined ? [] : [assigned(addressIPv6, gatewayIPv6)]),
  ];
  return { type: "static", addresses: chosen, routes: routesOf(original, addresses) };
}

function assigned(address: string, gateway: string | undefined): JsonObject {
  return gateway === undefined ? { address } : { address, gateway };
}

/** The routes of the network's own IPAM, without their gateways of other subnets: those are the engine's now. */
function routesOf(original: Json | undefined, addresses: DockerAddresses): Json[] {
  const hasIpam = isJsonObject(original) && typeof original.type === "string";
  if (!hasIpam) {
    return [
      ...(addresses.gateway === undefined ? [] : [{ dst: anyDestination[4] }]),
      ...(addresses.gatewayIPv6 === undefined ? [] : [{ dst: anyDestination[6] }]),
    ];
  }
  const routes = Array.isArray(original.routes) ? original.routes : [];
  return routes.filter((route) => hasGatewayFor(route, addresses));
}

/** A route of a family without an address could not be set. */
function hasGatewayFor(route: Json, { address, addressIPv6 }: DockerAddresses): boolean {
  const dst = isJsonObject(route) ? route.dst : undefined;
  const family = typeof dst === "string" ? tryParseCidr(dst)?.family : undefined;
  return (family === 6 ? addressIPv6 : address) !== undefined;
}

/** The address of a gateway that may be written with a prefix length, as engines do. */
export function gatewayAddress(text: string | undefined): string | undefined {
  return text === undefined ? undefined : (tryParseCidr(text)?.address ?? parseIp(text));
}
