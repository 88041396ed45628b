import type { FieldReader } from "#lib/field-reader.ts";
import { tryParseCidr, tryParseIp } from "#lib/ip.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { parseHardwareAddress } from "#npwg/hardware-address.ts";
import type { Bandwidth, PortMapping } from "./network-selection.ts";

/** At least one address, each with or without a prefix length (§4.1.2.1.3). */
export function readIps(fields: FieldReader): string[] | undefined {
  const ips = fields.strings("ips", (text) =>
    tryParseIp(text) === undefined && tryParseCidr(text) === undefined
      ? "must be an IPv4 or IPv6 address with an optional prefix length"
      : undefined,
  );
  refuseEmpty(fields, "ips", "address");
  return fields.has("ips") ? ips : undefined;
}

/** Any number of gateways, none included (§4.1.2.1.9). */
export function readGateways(fields: FieldReader): string[] | undefined {
  const gateways = fields.strings("default-route", ipProblem);
  return fields.has("default-route") ? gateways : undefined;
}

/** An Ethernet address, or one of IP over InfiniBand (§4.1.2.1.4). */
export function readMac(fields: FieldReader): string | undefined {
  const lengths = { bytes: [6, 20], name: "a 6-byte or 20-byte hardware address" };
  return readHardwareAddress(fields, "mac", lengths);
}

/** An InfiniBand GUID: Multus' addition. */
export function readGuid(fields: FieldReader): string | undefined {
  const lengths = { bytes: [8], name: "an 8-byte InfiniBand GUID" };
  return readHardwareAddress(fields, "infiniband-guid", lengths);
}

function readHardwareAddress(
  fields: FieldReader,
  key: string,
  wanted: { bytes: readonly number[]; name: string },
): string | undefined {
  const text = fields.string(key);
  if (text === undefined) return undefined;
  const address = parseHardwareAddress(text, wanted.bytes);
  if (address === undefined) fields.mismatch(key, wanted.name);
  return address;
}

/** At least one mapping (§4.1.2.1.7). */
export function readPortMappings(fields: FieldReader): PortMapping[] | undefined {
  const mappings = fields.objects("portMappings").map(readPortMapping);
  refuseEmpty(fields, "portMappings", "port mapping");
  return fields.has("portMappings") ? mappings : undefined;
}

function readPortMapping(fields: FieldReader): PortMapping {
  return omitUndefined({
    hostPort: readPort(fields, "hostPort"),
    containerPort: readPort(fields, "containerPort"),
    protocol: readProtocol(fields),
    hostIP: fields.value("hostIP") === "" ? undefined : fields.checked("hostIP", ipProblem),
  });
}

function readPort(fields: FieldReader, key: string): number {
  if (!fields.has(key)) fields.problem(key, "is missing");
  return fields.integer(key, { min: 1, max: 65_535 }) ?? 0;
}

function readProtocol(fields: FieldReader): PortMapping["protocol"] {
  const protocol = (fields.string("protocol") ?? "tcp").toLowerCase();
  if (protocol === "tcp" || protocol === "udp" || protocol === "sctp") return protocol;
  fields.mismatch("protocol", "TCP, UDP or SCTP");
  return "tcp";
}

const bandwidthKeys = ["ingressRate", "ingressBurst", "egressRate", "egressBurst"] as const;

/** At least one limit; a burst only with its rate (§4.1.2.1.8). */
export function readBandwidth(fields: FieldReader): Bandwidth | undefined {
  const limits = fields.object("bandwidth");
  if (limits === undefined) return undefined;
  if (!bandwidthKeys.some((key) => limits.has(key))) {
    fields.problem("bandwidth", `must have at least one of ${bandwidthKeys.join(", ")}`);
  }
  for (const direction of ["ingress", "egress"]) {
    const needsRate = limits.has(`${direction}Burst`) && !limits.has(`${direction}Rate`);
    if (needsRate) limits.problem(`${direction}Burst`, `needs ${direction}Rate`);
  }
  const [ingressRate, ingressBurst, egressRate, egressBurst] = bandwidthKeys.map((key) =>
    limits.integer(key, { min: 1 }),
  );
  return omitUndefined({ ingressRate, ingressBurst, egressRate, egressBurst });
}

function refuseEmpty(fields: FieldReader, key: string, element: string): void {
  const value = fields.value(key);
  const isEmpty = Array.isArray(value) && value.length === 0;
  if (isEmpty) fields.problem(key, `must have at least one ${element}`);
}

function ipProblem(text: string): string | undefined {
  return tryParseIp(text) === undefined ? "must be an IPv4 or IPv6 address" : undefined;
}
