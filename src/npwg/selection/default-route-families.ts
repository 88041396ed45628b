import { type IpFamily, ipFamily } from "#lib/ip.ts";

/** The IP families of a `default-route` key: those of its gateways, or both for an empty list. */
export function defaultRouteFamilies(gateways: readonly string[] | undefined): IpFamily[] {
  if (gateways === undefined) return [];
  if (gateways.length === 0) return [4, 6];
  return [...new Set(gateways.map(ipFamily))];
}
