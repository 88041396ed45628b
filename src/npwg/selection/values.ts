import { tryParseCidr, tryParseIp } from "#lib/ip.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { FieldReader } from "#lib/parsing/field-reader.ts";
import { parseHardwareAddress } from "#npwg/hardware-address.ts";
import type { Bandwidth, PortMapping } from "./network-selection.ts";

/** Addresses, each with or without a prefix length (§4.1.2.1.3). */
export function readIps(fields: FieldReader): string[] | undefined {
  const ips = fields.strings("ips", (text) =>
    tryParseIp(text) === undefined && tryParseCidr(text) === undefined
      ? "must be an IPv4 or IPv6 address with an optional prefix length"
      : undefined,
  );
  return fields.has("ips") ? ips : undefined;
}

/** Any number of gateways, none included (§4.1.2.1.9). */
export function readGateways(fields: FieldReader): string[] | undefined {
  const gateways = fields.strings("default-route", ipProblem);
  return fields.has("default-route") ? gateways : undefined;
}

/** A hardware address of one of these lengths, in lower-case colon form. */
export function readHardwareAddress(
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

/** Host ports forwarded to the pod (§4.1.2.1.7). */
export function readPortMappings(fields: FieldReader): PortMapping[] | undefined {
  const mappings = fields.objects("portMappings").map(readPortMapping);
  return fields.has("portMappings") ? mappings : undefined;
}

function readPortMapping(fields: FieldReader): PortMapping {
  return omitUndefined({
    hostPort: readPort(fields, "hostPort"),
    containerPort: readPort(fields, "containerPort"),
    protocol: readProtocol(fields),
    hostIP: readIfGiven(fields, "hostIP", ipProblem),
  });
}

/** A text that passes a check. Go's clients write "" for unset fields. */
export function readIfGiven(
  fields: FieldReader,
  key: string,
  problem: Parameters<FieldReader["checked"]>[1],
): string | undefined {
  return fields.value(key) === "" ? undefined : fields.checked(key, problem);
}

function readPort(fields: FieldReader, key: string): number {
  if (fields.value(key) === undefined) fields.problem(key, "is missing");
  return fields.integer(key, { min: 1, max: 65_535 }) ?? 0;
}

function readProtocol(fields: FieldReader): PortMapping["protocol"] {
  const protocol = (fields.string("protocol") || "tcp").toLowerCase();
  if (protocol === "tcp" || protocol === "udp" || protocol === "sctp") return protocol;
  fields.mismatch("protocol", "TCP, UDP or SCTP");
  return "tcp";
}

export const bandwidthKeys = ["ingressRate", "ingressBurst", "egressRate", "egressBurst"] as const;

/** Rate limits; a burst requires its rate (§4.1.2.1.8). 0 is no limit: Go's clients write all four. */
export function readBandwidth(fields: FieldReader): Bandwidth | undefined {
  const limits = fields.object("bandwidth");
  if (limits === undefined) return undefined;
  for (const direction of ["ingress", "egress"]) {
    const needsRate = isGiven(limits, `${direction}Burst`) && !isGiven(limits, `${direction}Rate`);
    if (needsRate) limits.problem(`${direction}Burst`, `needs ${direction}Rate`);
  }
  const [ingressRate, ingressBurst, egressRate, egressBurst] = bandwidthKeys.map(
    (key) => limits.integer(key) || undefined,
  );
  const given = omitUndefined({ ingressRate, ingressBurst, egressRate, egressBurst });
  return Object.keys(given).length === 0 ? undefined : given;
}

function isGiven(fields: FieldReader, key: string): boolean {
  return fields.value(key) !== undefined && fields.value(key) !== 0;
}

function ipProblem(text: string): string | undefined {
  return tryParseIp(text) === undefined ? "must be an IPv4 or IPv6 address" : undefined;
}
