import type { Result, ResultInterface } from "#cni/result/result.ts";
import { resultFamily } from "#cni/versions.ts";
import { ipFamily, isDefaultRoute, parseCidr } from "#lib/ip.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/**
 * One element of the network-status annotation (multi-network specification v1.1 §5.3). `mtu`,
 * `device-info` and `gateway` are Multus' additions, which its clients read.
 */
export interface NetworkStatus {
  /** `namespace/name` of the definition, or the CNI name of the network. */
  readonly name: string;
  readonly interface?: string;
  /** Without prefix lengths, as Multus writes them. */
  readonly ips?: readonly string[];
  readonly mac?: string;
  readonly mtu?: number;
  /** Required by §5.3.5, so written even when false, where Multus leaves it out; Go clients read both alike. */
  readonly default: boolean;
  /** Always there, `{}` when there is nothing to say, as Multus writes it. */
  readonly dns: NetworkStatusDns;
  readonly "device-info"?: JsonObject;
  /** Gateways of the attachment's default routes. */
  readonly gateway?: readonly string[];
  /** The same, when the pod asked for the default route by this attachment (§5.3.6.4). */
  readonly "default-route"?: readonly string[];
}

/** DNS settings that came of the attachment (§5.3.6); `options` is Multus' addition. */
interface NetworkStatusDns {
  readonly nameservers?: readonly string[];
  readonly domain?: string;
  readonly search?: readonly string[];
  readonly options?: readonly string[];
}

/** What came of an attachment. */
export interface AttachmentOutcome {
  readonly displayName: string;
  /** Whether it is the cluster default network's. */
  readonly isDefault: boolean;
  /** CNI_IFNAME of its ADD. */
  readonly ifName: string;
  /** Its final result, with the routes as they are in the pod; undefined when the plugins gave none. */
  readonly result: Result | undefined;
  /** The version in which the plugins gave the result. @default the result's own */
  readonly resultVersion?: string;
  /** The pod's `default-route` request; absent when the attachment has none. */
  readonly defaultRoute?: readonly string[] | undefined;
  readonly deviceInfo?: JsonObject | undefined;
}

/**
 * The status of one attachment. The first element is the one that the specification asks for, made
 * of the first interface that has a sandbox (§5.1.1); as in Multus each further sandbox interface
 * has an element of its own. Where Multus writes none, because no interface has a sandbox or the plugins gave
 * no result, there still is the minimal element that §5.1.1 wants. One of the elements is `default`, as §5.3.5
 * allows no more: see {@link mainInterface}.
 */
export function buildNetworkStatus(outcome: AttachmentOutcome): NetworkStatus[] {
  const { result } = outcome;
  if (result === undefined) return [element(outcome, { ips: [] })];
  const sandboxed = [...result.interfaces.entries()].filter(
    ([, { sandbox }]) => sandbox !== undefined && sandbox !== "",
  );
  if (sandboxed.length === 0) return [element(outcome, withoutInterface(outcome, result))];
  const indexes = sandboxed.map(([index]) => index);
  const main = mainInterface(result, indexes);
  return sandboxed.map(([index, link]) => {
    const status = element(outcome, { link, ips: ipsOf(result, index, indexes.length === 1) });
    return index === main ? status : { ...status, default: false };
  });
}

/**
 * The interface that is the network's own where there are several: NPWG's client library takes that of the first
 * address with a gateway, else the first with a sandbox. OVN-Kubernetes' primary user-defined networks have
 * their gateway on `ovn-udn1`, after the infrastructure's `eth0`.
 */
function mainInterface({ ips }: Result, sandboxed: readonly number[]): number | undefined {
  const withGateway = ips.find((ip) => ip.gateway !== undefined && ip.interface !== undefined);
  const index = withGateway?.interface;
  return index !== undefined && sandboxed.includes(index) ? index : sandboxed[0];
}

/** Multus' form of the annotation: the elements each indented by four spaces, in one line with the brackets. */
export function formatNetworkStatus(list: readonly NetworkStatus[]): string {
  return `[${list.map((status) => JSON.stringify(status, null, 4)).join(",")}]`;
}

interface Attached {
  readonly link?: Pick<ResultInterface, "name" | "mac" | "mtu">;
  readonly ips: readonly string[];
}

/**
 * Without a sandbox interface the addresses are those that name no interface (§5.3.3.1 rule 2). All of
 * them, not the first alone as its wording has it: a dual-stack pod has one of each family. Results
 * before 0.3.0 know no interfaces; then it is the one of the call (§5.3.2.1).
 */
function withoutInterface(outcome: AttachmentOutcome, result: Result): Attached {
  const ips = result.ips
    .filter((ip) => ip.interface === undefined)
    .map((ip) => bareAddress(ip.address));
  const isOld = resultFamily(outcome.resultVersion ?? result.cniVersion) === "0.2";
  return isOld ? { link: { name: outcome.ifName }, ips } : { ips };
}

/**
 * The addresses of an interface (§5.3.3.1 rule 1). Those that name no interface belong to none, except
 * where it is the result's only one in the sandbox: they cannot be another's.
 */
function ipsOf(result: Result, index: number, isOnly: boolean): string[] {
  return result.ips
    .filter((ip) => ip.interface === index || (isOnly && ip.interface === undefined))
    .map((ip) => bareAddress(ip.address));
}

function element(outcome: AttachmentOutcome, { link, ips }: Attached): NetworkStatus {
  const gateways = outcome.result === undefined ? [] : defaultGateways(outcome.result);
  const selected = outcome.defaultRoute?.length === 0 ? gateways : outcome.defaultRoute;
  const hasName = link !== undefined && link.name !== "";
  return omitUndefined({
    name: outcome.displayName,
    interface: hasName ? link.name : undefined,
    ips: nonEmpty(ips),
    mac: hasName ? link.mac || undefined : undefined,
    mtu: hasName ? link.mtu || undefined : undefined,
    default: outcome.isDefault,
    dns: formatDns(outcome.result),
    "device-info": outcome.deviceInfo,
    gateway: nonEmpty(gateways),
    "default-route": nonEmpty(selected),
  });
}

/**
 * The gateways of the default routes of the main table, each once. A route without one uses the
 * gateway of an address of its family (CNI 1.1.0 §5 "ADD Success", `routes`); where there is none
 * either, it is on-link and has nothing to show, where Multus writes `<nil>`.
 */
function defaultGateways(result: Result): string[] {
  const gateways = result.routes
    .filter((route) => isDefaultRoute(route.dst) && isMainTable(route.table))
    .flatMap((route) => route.gw ?? gatewayOfFamily(result, ipFamily(route.dst)) ?? []);
  return [...new Set(gateways)];
}

function gatewayOfFamily(result: Result, family: 4 | 6): string | undefined {
  return result.ips.find((ip) => ip.gateway !== undefined && ipFamily(ip.address) === family)
    ?.gateway;
}

/** 0 and absent are the kernel's unspecified table, which is main. */
function isMainTable(table: number | undefined): boolean {
  return table === undefined || table === 0 || table === 254;
}

function formatDns(result: Result | undefined): NetworkStatusDns {
  const { nameservers, domain, search, options } = result?.dns ?? {};
  return omitUndefined({
    nameservers: nonEmpty(nameservers),
    domain: domain || undefined,
    search: nonEmpty(search),
    options: nonEmpty(options),
  });
}

/** Multus leaves out lists that are empty. */
function nonEmpty(list: readonly string[] | undefined): readonly string[] | undefined {
  return list?.length === 0 ? undefined : list;
}

function bareAddress(cidr: string): string {
  return parseCidr(cidr).address;
}
