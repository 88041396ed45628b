import { isJsonObject, type Json, jsonTypeName } from "#lib/json.ts";
import { isCidr, isIp } from "#npwg/address.ts";
import { foldKeys, type Report, readArray, readInteger, readString, reportAt } from "./read.ts";

/** A port of the host that leads to one of the pod (multi-network specification v1.1 §4.1.2.1.7). */
export interface PortMapping {
  readonly hostPort: number;
  readonly containerPort: number;
  /** As in CNI's conventions: lower case. */
  readonly protocol: "tcp" | "udp" | "sctp";
  /** Multus' addition: the host's address on which to accept. */
  readonly hostIP?: string;
}

/** Bits per second, and bits (§4.1.2.1.8). */
export interface Bandwidth {
  readonly ingressRate?: number;
  readonly ingressBurst?: number;
  readonly egressRate?: number;
  readonly egressBurst?: number;
}

/** At least one address, each with or without a prefix length (§4.1.2.1.3). */
export function readIps(value: Json, report: Report): string[] | undefined {
  const list = readArray(value, { report, of: "addresses" });
  if (list === undefined) return undefined;
  if (list.length === 0) return report({ value, reason: "must contain at least one address" });
  const valid = list.map((item, i) =>
    readAddress(item, { report: reportAt(`[${i}]`, report), cidr: true }),
  );
  return allOf(valid);
}

/** Any number of gateways, none included (§4.1.2.1.9). */
export function readGateways(value: Json, report: Report): string[] | undefined {
  const list = readArray(value, { report, of: "addresses" });
  return (
    list &&
    allOf(
      list.map((item, i) => readAddress(item, { report: reportAt(`[${i}]`, report), cidr: false })),
    )
  );
}

function readAddress(value: Json, options: { report: Report; cidr: boolean }): string | undefined {
  const text = readString(value, options.report);
  if (text === undefined || isIp(text) || (options.cidr && isCidr(text))) return text;
  const reason = options.cidr
    ? "not an IPv4 or IPv6 address with an optional prefix length"
    : "not an IPv4 or IPv6 address";
  return options.report({ value, reason });
}

/** At least one mapping (§4.1.2.1.7). */
export function readPortMappings(value: Json, report: Report): PortMapping[] | undefined {
  const list = readArray(value, { report, of: "objects" });
  if (list === undefined) return undefined;
  if (list.length === 0) return report({ value, reason: "must contain at least one port mapping" });
  return allOf(list.map((item, i) => readPortMapping(item, reportAt(`[${i}]`, report))));
}

function readPortMapping(value: Json, report: Report): PortMapping | undefined {
  if (!isJsonObject(value))
    return report({ value, reason: `${jsonTypeName(value)}, not an object` });
  const known = ["hostPort", "containerPort", "protocol", "hostIP"];
  const keys = foldKeys(value, { known, onWarning: () => {} });
  const hostPort = readPort("hostPort", { keys, report });
  const containerPort = readPort("containerPort", { keys, report });
  const protocol = readProtocol(keys.get("protocol") ?? "TCP", reportAt(".protocol", report));
  const hostIpValue = keys.get("hostIP");
  const hostIP =
    hostIpValue === undefined || hostIpValue === "" ? "" : readHostIp(hostIpValue, report);
  if (
    hostPort === undefined ||
    containerPort === undefined ||
    protocol === undefined ||
    hostIP === undefined
  ) {
    return undefined;
  }
  return { hostPort, containerPort, protocol, ...(hostIP === "" ? {} : { hostIP }) };
}

function readPort(
  key: string,
  from: { keys: Map<string, Json>; report: Report },
): number | undefined {
  const report = reportAt(`.${key}`, from.report);
  const value = from.keys.get(key);
  if (value === undefined) return report({ value, reason: "is missing" });
  return readInteger(value, { report, min: 1, max: 65_535 });
}

function readProtocol(value: Json, report: Report): PortMapping["protocol"] | undefined {
  const protocol = readString(value, report)?.toLowerCase();
  if (protocol === undefined) return undefined;
  if (protocol === "tcp" || protocol === "udp" || protocol === "sctp") return protocol;
  return report({ value, reason: "not one of TCP, UDP and SCTP" });
}

function readHostIp(value: Json, report: Report): string | undefined {
  return readAddress(value, { report: reportAt(".hostIP", report), cidr: false });
}

const bandwidthKeys = ["ingressRate", "ingressBurst", "egressRate", "egressBurst"] as const;

/** At least one limit; a burst only with its rate (§4.1.2.1.8). */
export function readBandwidth(value: Json, report: Report): Bandwidth | undefined {
  if (!isJsonObject(value))
    return report({ value, reason: `${jsonTypeName(value)}, not an object` });
  const keys = foldKeys(value, { known: bandwidthKeys, onWarning: () => {} });
  if (keys.size === 0)
    return report({ value, reason: `must contain at least one of ${bandwidthKeys.join(", ")}` });
  const limits = [...keys].map(([key, limit]) => {
    const number = readInteger(limit, {
      report: reportAt(`.${key}`, report),
      min: 1,
      max: Number.MAX_SAFE_INTEGER,
    });
    return number === undefined ? undefined : ([key, number] as const);
  });
  for (const direction of ["ingress", "egress"]) {
    if (keys.has(`${direction}Burst`) && !keys.has(`${direction}Rate`)) {
      return report({
        path: `.${direction}Burst`,
        value: keys.get(`${direction}Burst`),
        reason: `needs ${direction}Rate`,
      });
    }
  }
  const valid = allOf(limits);
  return valid && Object.fromEntries(valid);
}

/** The elements when every one of them was read; undefined when any was not. */
function allOf<T>(values: readonly (T | undefined)[]): T[] | undefined {
  const read = values.filter((value) => value !== undefined);
  return read.length === values.length ? read : undefined;
}
