import { tryParseIp } from "#lib/ip.ts";
import { type Json, type JsonObject, quoteValue } from "#lib/json.ts";
import { CniErrorCode } from "./error.ts";
import { FieldReader, Problems } from "./field-reader.ts";

/** The `portMappings` capability: CONVENTIONS.md, "Dynamic Plugin specific fields". */
export interface PortMapping {
  readonly hostPort: number;
  readonly containerPort: number;
  /** In lower case. */
  readonly protocol: string;
  readonly hostIP?: string;
}

/** The `bandwidth` capability, in bits and bits per second. */
export interface Bandwidth {
  readonly ingressRate?: number;
  readonly ingressBurst?: number;
  readonly egressRate?: number;
  readonly egressBurst?: number;
}

const maxPort = 65_535;

/** An object with its keys in lower case, the last of several winning: how Go's plugins read it. */
export function foldKeys(object: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(object).map(([key, value]) => [key.toLowerCase(), value]),
  );
}

/**
 * Reads port mappings whatever the case of their keys: containerd capitalises them.
 * @throws CniError 7 naming every field that is wrong
 */
export function readPortMappings(value: Json): PortMapping[] {
  return reading("portMappings", value, (fields) =>
    fields.objects("portMappings").map(readPortMapping),
  );
}

/** Reads rates and bursts as {@link readPortMappings} does. @throws CniError 7 */
export function readBandwidth(value: Json): Bandwidth {
  return reading("bandwidth", value, (fields) => {
    const limits = fields.object("bandwidth");
    const keys = ["ingressRate", "ingressBurst", "egressRate", "egressBurst"] as const;
    const entries = keys.map((key) => [key, limits?.integer(key)] as const);
    return Object.fromEntries(entries.filter(([, limit]) => limit !== undefined));
  });
}

function readPortMapping(fields: FieldReader): PortMapping {
  const protocol = (fields.string("protocol") ?? "").toLowerCase();
  if (!["tcp", "udp", "sctp"].includes(protocol)) {
    fields.problem("protocol", `must be tcp, udp or sctp, got ${quoteValue(protocol)}`);
  }
  const hostIP = fields.string("hostIP") ?? "";
  const ip = tryParseIp(hostIP);
  if (hostIP !== "" && ip === undefined) {
    fields.problem("hostIP", `invalid IP address: ${quoteValue(hostIP)}`);
  }
  return {
    hostPort: readPort(fields, "hostPort"),
    containerPort: readPort(fields, "containerPort"),
    protocol,
    ...(ip === undefined ? {} : { hostIP: ip }),
  };
}

function readPort(fields: FieldReader, key: string): number {
  const port = fields.integer(key) ?? 0;
  if (port > maxPort) fields.problem(key, `must be at most ${maxPort}, got ${port}`);
  if (fields.value(key) === undefined) fields.problem(key, "is missing");
  return port;
}

function reading<T>(key: string, value: Json, read: (fields: FieldReader) => T): T {
  const problems = new Problems();
  const values = read(new FieldReader({ [key]: value }, { path: "", problems, foldCase: true }));
  problems.throwIfAny(CniErrorCode.InvalidNetworkConfig, "invalid runtimeConfig");
  return values;
}
