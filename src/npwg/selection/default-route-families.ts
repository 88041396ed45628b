import { type IpFamily, ipFamily } from "#lib/ip.ts";

/**
 * The IP families whose default route a `default-route` key is about: those of its gateways, and both when
 * it names none. None at all without the key.
 */
export function defaultRouteFamilies(gateways: readonly string[] | undefined): IpFamily[] {
  if (gateways === undefined) return [];
  if (gateways.length === 0) return [4, 6];
  return [...new Set(gateways.map(ipFamily))];
}
