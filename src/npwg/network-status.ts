import {
  isDefaultOfMain,
  type Result,
  type ResultDns,
  type ResultInterface,
  type ResultIp,
  sandboxInterfaces,
} from "#cni/result/result.ts";
import { resultFamily } from "#cni/versions.ts";
import { ipFamily, parseCidr } from "#lib/ip.ts";
import { type JsonObject, objectsOf } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { parseJsonText } from "#lib/parsing/json-text.ts";

/**
 * An element of the network-status annotation (multi-network specification v1.1 §5.3). `mtu`,
 * `device-info` and `gateway` are Multus' additions, which clients read.
 */
export interface NetworkStatus {
  /** `namespace/name` of the definition, or the CNI name of the network. */
  readonly name: string;
  readonly interface?: string;
  /** Without prefix lengths, as Multus writes them. */
  readonly ips?: readonly string[];
  readonly mac?: string;
  readonly mtu?: number;
  /** Written even when false (§5.3.5); Multus omits it then. Go clients read both alike. */
  readonly default: boolean;
  /** §5.3.6; always present, `{}` when empty, as in Multus, which added `options`. */
  readonly dns: ResultDns;
  readonly "device-info"?: JsonObject;
  /** Gateways of the attachment's default routes. */
  readonly gateway?: readonly string[];
  /** The gateways, when the pod requested the default route from this attachment (§5.3.6.4). */
  readonly "default-route"?: readonly string[];
}

/** The outcome of an attachment. */
export interface AttachmentOutcome {
  readonly displayName: string;
  readonly isDefault: boolean;
  /** CNI_IFNAME of its ADD. */
  readonly ifName: string;
  /** The result with the routes as they are in the pod. */
  readonly result: Result;
  /** The pod's `default-route` request; absent when the attachment has none. */
  readonly defaultRoute?: readonly string[] | undefined;
  readonly deviceInfo?: JsonObject | undefined;
}

/**
 * The status elements of one attachment. The first describes the first interface with a sandbox
 * (§5.1.1); as in Multus, each further sandbox interface has an element. Without a sandbox
 * interface there is the minimal element of §5.1.1, where Multus writes none. Exactly one element is `default` (§5.3.5): see {@link mainInterface}.
 */
export function buildNetworkStatus(outcome: AttachmentOutcome): NetworkStatus[] {
  const { result } = outcome;
  const sandboxed = sandboxInterfaces(result);
  if (sandboxed.length === 0) return [element(outcome, withoutInterface(outcome))];
  const indexes = sandboxed.map(({ index }) => index);
  const main = mainInterface(result, indexes);
  const ips = ipsByIndex(result, indexes);
  return sandboxed.map(({ index, link }) => {
    const status = element(outcome, { link, ips: ips.get(index) ?? [] });
    return index === main ? status : { ...status, default: false };
  });
}

/**
 * The main interface of several: as in NPWG's client library, the one of the first address with a
 * gateway, or else the first with a sandbox. In OVN-Kubernetes' primary user-defined networks the
 * gateway is on `ovn-udn1`, after the infrastructure's `eth0`.
 */
function mainInterface({ ips }: Result, sandboxed: readonly number[]): number | undefined {
  const withGateway = ips.find((ip) => ip.gateway !== undefined && ip.interface !== undefined);
  const index = withGateway?.interface;
  return index !== undefined && sandboxed.includes(index) ? index : sandboxed[0];
}

/** Multus' format: each element indented by four spaces, on one line with the brackets. */
export function formatNetworkStatus(list: readonly NetworkStatus[]): string {
  return `[${list.map((status) => JSON.stringify(status, null, 4)).join(",")}]`;
}

interface Attached {
  readonly link?: Pick<ResultInterface, "name" | "mac" | "mtu">;
  readonly ips?: readonly string[];
}

/**
 * Without a sandbox interface: the addresses that name no interface (§5.3.3.1 rule 2). All of them
 * and not only the first, because a dual-stack pod has one of each family. Results before 0.3.0
 * have no interfaces; the call's interface counts (§5.3.2.1).
 */
function withoutInterface({ ifName, result }: AttachmentOutcome): Attached {
  const ips = result.ips.filter((ip) => ip.interface === undefined).map(bareIp);
  return resultFamily(result.cniVersion) === "0.2" ? { link: { name: ifName }, ips } : { ips };
}

/** The entries of a network-status annotation; none when it cannot be read. */
export function statusEntries(text: string): JsonObject[] {
  try {
    return objectsOf(parseJsonText(text));
  } catch {
    return [];
  }
}

/** The addresses of each sandbox interface, by name. */
export function addressesOf(result: Result): Map<string, readonly string[]> {
  const sandboxed = sandboxInterfaces(result);
  const indexes = sandboxed.map(({ index }) => index);
  const ips = ipsByIndex(result, indexes);
  return new Map(sandboxed.map(({ index, link }) => [link.name, ips.get(index) ?? []]));
}

/**
 * The addresses of interfaces (§5.3.3.1 rule 1), by index. As in NPWG's client library, one without
 * interface belongs to the last. So do those of the host's interfaces if there are no others: some
 * plugins name the host's end of a veth pair for the pod's address.
 */
function ipsByIndex({ ips }: Result, indexes: readonly number[]): Map<number, readonly string[]> {
  const last = indexes.at(-1) ?? -1;
  const isInside = ({ interface: index = last }: ResultIp): boolean => indexes.includes(index);
  const hasInside = ips.some(isInside);
  const owned = Map.groupBy(ips, (ip) => (hasInside ? (ip.interface ?? last) : last));
  return new Map([...owned].map(([index, list]) => [index, list.map(bareIp)]));
}

function element(outcome: AttachmentOutcome, { link, ips }: Attached): NetworkStatus {
  const gateways = defaultGateways(outcome.result);
  const selected = outcome.defaultRoute?.length === 0 ? gateways : outcome.defaultRoute;
  const hasName = link !== undefined && link.name !== "";
  return omitUndefined({
    name: outcome.displayName,
    interface: hasName ? link.name : undefined,
    ips: nonEmpty(ips),
    mac: hasName ? link.mac || undefined : undefined,
    mtu: hasName ? link.mtu || undefined : undefined,
    default: outcome.isDefault,
    dns: outcome.result.dns ?? {},
    "device-info": outcome.deviceInfo,
    gateway: nonEmpty(gateways),
    "default-route": nonEmpty(selected),
  });
}

/**
 * The distinct gateways of default routes in the main table. A route without gateway uses the one
 * of its family's address (CNI 1.1.0 §5 "ADD Success", `routes`); on-link routes show nothing.
 */
export function defaultGateways(result: Result): string[] {
  const gateways = result.routes
    .filter(isDefaultOfMain)
    .flatMap((route) => route.gw ?? gatewayOfFamily(result, ipFamily(route.dst)) ?? []);
  return [...new Set(gateways)];
}

function gatewayOfFamily(result: Result, family: 4 | 6): string | undefined {
  return result.ips.find((ip) => ip.gateway !== undefined && ipFamily(ip.address) === family)
    ?.gateway;
}

/** Multus omits empty lists. */
function nonEmpty(list: readonly string[] | undefined): readonly string[] | undefined {
  return list?.length === 0 ? undefined : list;
}

function bareIp({ address }: ResultIp): string {
  return parseCidr(address).address;
}
