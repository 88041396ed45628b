import type { EndpointState, NetworkState } from "#docker/state.ts";
import { anyDestination, covers, ipFamily, parseIp, tryParseCidr } from "#lib/ip.ts";
import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/**
 * The configuration of a network for an endpoint. With addresses of Docker's IPAM, `static` with
 * these replaces the IPAM of the first plugin. The network's routes stay; a network without IPAM
 * gets a default route through each gateway.
 * @throws Error when the configuration has no plugin
 */
export function confOfEndpoint(
  { conf, ipv4, ipv6 }: NetworkState,
  { Address, AddressIPv6 }: EndpointState["requested"],
): JsonObject {
  const chosen = [...withGateway(Address, ipv4), ...withGateway(AddressIPv6, ipv6)];
  if (chosen.length === 0) return conf;
  const [first, ...others] = Array.isArray(conf.plugins) ? conf.plugins : [];
  if (!isJsonObject(first)) throw new Error("the network has no plugin");
  const ipam = { type: "static", addresses: chosen, routes: routesOf(first.ipam, chosen) };
  return { ...conf, plugins: [{ ...first, ipam }, ...others] };
}

/** An address that Docker's IPAM chose, with prefix length, and the gateway of its pool. */
type ChosenAddress = { address: string; gateway?: string };

function withGateway(address: string | undefined, pools: NetworkState["ipv4"]): ChosenAddress[] {
  if (address === undefined) return [];
  const ip = tryParseCidr(address)?.address;
  const own = pools.find(({ Pool = "" }) => {
    const pool = tryParseCidr(Pool);
    return ip !== undefined && pool !== undefined && covers(pool, ip);
  });
  // dockerd writes it with a prefix length.
  const text = own?.Gateway;
  const gateway = text === undefined ? undefined : (tryParseCidr(text)?.address ?? parseIp(text));
  return [omitUndefined({ address, gateway })];
}

/** The routes of the network's IPAM for the families that have an address. */
function routesOf(ipam: Json | undefined, chosen: readonly ChosenAddress[]): Json[] {
  if (!isJsonObject(ipam) || typeof ipam.type !== "string") {
    const withGateways = chosen.filter(({ gateway }) => gateway !== undefined);
    return withGateways.map(({ address }) => ({ dst: anyDestination[ipFamily(address)] }));
  }
  const families = new Set(chosen.map(({ address }) => ipFamily(address)));
  const routes = Array.isArray(ipam.routes) ? ipam.routes : [];
  return routes.filter((route) => {
    const dst = isJsonObject(route) && typeof route.dst === "string" ? route.dst : "";
    return families.has(tryParseCidr(dst)?.family ?? 4);
  });
}
