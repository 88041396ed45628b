import { CniError } from "#cni/error.ts";
import { resultFamily } from "#cni/versions.ts";
import { type IpFamily, ipFamily } from "#lib/ip.ts";
import type { Json, JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { Result, ResultDns, ResultIp, ResultRoute } from "./result.ts";

/**
 * Writes a result in a version, with the keys in the order of Go's library. 0.2.0 and older keep
 * only the first address of each family, no attributes of routes and no interfaces.
 * @throws CniError 1 when the version is unknown, or cannot hold a result without addresses
 */
export function formatResult(result: Result, version: string): JsonObject {
  const cniVersion = version === "" ? "0.1.0" : version;
  const from = resultFamily(result.cniVersion);
  const to = resultFamily(cniVersion);
  if (from === undefined || to === undefined) {
    throw new CniError(
      "IncompatibleCniVersion",
      `no converter for CNI result version ${result.cniVersion} to ${cniVersion}`,
    );
  }
  if (to === "1") return formatLists(result, cniVersion);
  if (to === "0.4") return formatLegacyLists(result, cniVersion);
  return formatByFamily(result, { cniVersion, isSameFamily: from === "0.2" });
}

/** The text that a plugin prints: indented by four spaces, without a final newline. */
export function printResult(result: JsonObject): string {
  return JSON.stringify(result, null, 4);
}

/** 1.0.0 and newer: keys in alphabetical order, nothing empty. */
function formatLists(result: Result, cniVersion: string): JsonObject {
  const dns = formatDns(result.dns);
  return omitUndefined({
    cniVersion,
    dns: Object.keys(dns).length === 0 ? undefined : sorted(dns),
    interfaces: list(result.interfaces.map((entry) => sorted({ ...entry }))),
    ips: list(
      result.ips.map((ip) =>
        omitUndefined({
          address: ip.address,
          gateway: ip.gateway,
          interface: interfaceIndex(ip, result),
        }),
      ),
    ),
    routes: list(result.routes.map((route) => sorted(formatRoute(route)))),
  });
}

function sorted(object: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(object).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

/** 0.3.0 to 0.4.0: every address says its IP version, `dns` is always there. */
function formatLegacyLists(result: Result, cniVersion: string): JsonObject {
  return omitUndefined({
    cniVersion,
    interfaces: list(
      result.interfaces.map(({ name, mac, sandbox }) => omitUndefined({ name, mac, sandbox })),
    ),
    ips: list(
      result.ips.map((ip) =>
        omitUndefined({
          version: ipVersion(ip),
          interface: interfaceIndex(ip, result),
          address: ip.address,
          gateway: ip.gateway,
        }),
      ),
    ),
    routes: list(result.routes.map(formatRoute)),
    dns: formatDns(result.dns),
  });
}

/** 0.1.0 and 0.2.0: one address of each family with its routes. */
function formatByFamily(
  result: Result,
  options: { cniVersion: string; isSameFamily: boolean },
): JsonObject {
  const { cniVersion, isSameFamily } = options;
  const ip4 = formatIpConfig(result, { family: 4, isSameFamily });
  const ip6 = formatIpConfig(result, { family: 6, isSameFamily });
  if (ip4 === undefined && ip6 === undefined && !isSameFamily) {
    throw new CniError("IncompatibleCniVersion", "cannot convert: no valid IP addresses");
  }
  return omitUndefined({ cniVersion, ip4, ip6, dns: formatDns(result.dns) });
}

function formatIpConfig(
  result: Result,
  { family, isSameFamily }: { family: IpFamily; isSameFamily: boolean },
): JsonObject | undefined {
  const ip = result.ips.find((entry) => ipVersion(entry) === String(family));
  if (ip === undefined) return undefined;
  const routes = result.routes
    .filter((route) => ipFamily(route.dst) === family)
    .map((route) =>
      isSameFamily ? formatRoute(route) : omitUndefined({ dst: route.dst, gw: route.gw }),
    );
  return omitUndefined({ ip: ip.address, gateway: ip.gateway, routes: list(routes) });
}

function ipVersion({ version, address }: ResultIp): string {
  return version ?? String(ipFamily(address));
}

function formatRoute({ dst, gw, mtu, advmss, priority, table, scope }: ResultRoute): JsonObject {
  return omitUndefined({ dst, gw, mtu, advmss, priority, table, scope });
}

function formatDns(dns: ResultDns = {}): JsonObject {
  return omitUndefined({
    nameservers: list(dns.nameservers),
    domain: dns.domain,
    search: list(dns.search),
    options: list(dns.options),
  });
}

/** An index outside the list crashes containerd, so it is never written. */
function interfaceIndex(
  { interface: index = -1 }: ResultIp,
  { interfaces }: Result,
): number | undefined {
  return interfaces[index] === undefined ? undefined : index;
}

function list(items: readonly Json[] = []): Json | undefined {
  return items.length === 0 ? undefined : [...items];
}
