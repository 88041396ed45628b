import { CniErrorCode } from "#cni/error.ts";
import { FieldReader, Problems } from "#cni/field-reader.ts";
import { type ResultFamily, resultFamily } from "#cni/versions.ts";
import { formatCidr, type IpFamily, ipFamily, tryParseCidr, tryParseIp } from "#lib/ip.ts";
import { isJsonObject, jsonTypeName } from "#lib/json.ts";

export { resultFamily } from "#cni/versions.ts";
export { formatResult, printResult } from "./format.ts";

/** What an ADD reports, whatever the version it was printed in: CNI 1.1.0 §5 "ADD Success". */
export interface Result {
  /** The version that it was read in. */
  readonly cniVersion: string;
  readonly interfaces: readonly ResultInterface[];
  readonly ips: readonly ResultIp[];
  readonly routes: readonly ResultRoute[];
  /** Absent when there is nothing in it. */
  readonly dns?: ResultDns;
}

/** One interface, in the container or on the host. */
export interface ResultInterface {
  readonly name: string;
  readonly mac?: string;
  readonly mtu?: number;
  /** The network namespace's path; absent for interfaces of the host. */
  readonly sandbox?: string;
  readonly socketPath?: string;
  readonly pciID?: string;
}

/** One address. */
export interface ResultIp {
  /** CIDR, with host bits. */
  readonly address: string;
  readonly gateway?: string;
  /** An index of {@link Result.interfaces}, always within it. */
  readonly interface?: number;
  /** As read, for results below 1.0.0, where it may be ""; absent in newer ones. */
  readonly version?: string;
}

/** One route of the sandbox interface. */
export interface ResultRoute {
  readonly dst: string;
  readonly gw?: string;
  readonly mtu?: number;
  readonly advmss?: number;
  readonly priority?: number;
  readonly table?: number;
  readonly scope?: number;
}

/** DNS settings; what is empty is absent. */
export interface ResultDns {
  readonly nameservers?: readonly string[];
  readonly domain?: string;
  readonly search?: readonly string[];
  readonly options?: readonly string[];
}

/**
 * Reads a result of any version. Keys match whatever their case, as in Go; unknown ones are left
 * out; a negative interface index means none.
 * @throws CniError 6 naming every field that is wrong.
 */
export function parseResult(raw: unknown, options: { fallbackVersion: string }): Result {
  const problems = new Problems();
  const fields = openResult(raw, problems);
  const cniVersion = versionOfResult(fields, options.fallbackVersion);
  const family = resultFamily(cniVersion);
  const body = family === undefined ? unreadable(fields, cniVersion) : readBody(fields, family);
  const dns = readDns(fields.object("dns"));
  problems.throwIfAny(CniErrorCode.DecodingFailure, "cannot decode result");
  return { cniVersion, ...body, ...(dns === undefined ? {} : { dns }) };
}

type ResultBody = Pick<Result, "interfaces" | "ips" | "routes">;

function openResult(raw: unknown, problems: Problems): FieldReader {
  if (raw !== null && !isJsonObject(raw)) {
    problems.add("", `must be an object, got ${jsonTypeName(raw)}`);
  }
  return new FieldReader(isJsonObject(raw) ? raw : {}, { path: "", problems, foldCase: true });
}

/** The version of a result; a plugin that prints none means the one of its configuration. */
function versionOfResult(fields: FieldReader, fallback: string): string {
  const version = fields.value("cniVersion");
  const known = typeof version === "string" && version !== "" ? version : fallback;
  return known === "" ? "0.1.0" : known;
}

function unreadable(fields: FieldReader, cniVersion: string): ResultBody {
  fields.problem("cniVersion", `unsupported CNI result version ${JSON.stringify(cniVersion)}`);
  return { interfaces: [], ips: [], routes: [] };
}

function readBody(fields: FieldReader, family: ResultFamily): ResultBody {
  if (family === "0.2") return readByFamily(fields);
  const isLegacy = family === "0.4";
  const interfaces = fields.objects("interfaces").map((entry) => readInterface(entry, isLegacy));
  const context = { isLegacy, interfaces: fields.count("interfaces") };
  const ips = fields.objects("ips").map((entry) => readIpEntry(entry, context));
  return { interfaces, ips, routes: fields.objects("routes").map((route) => readRoute(route)) };
}

/** Until 0.2.0: one address of each family, each with its routes. */
function readByFamily(fields: FieldReader): ResultBody {
  const configs = ([4, 6] as const).flatMap((family) => {
    const config = fields.object(`ip${family}`);
    return config === undefined ? [] : [readIpConfig(config, family)];
  });
  return {
    interfaces: [],
    ips: configs.map((config) => config.ip),
    routes: configs.flatMap((config) => config.routes),
  };
}

function readIpConfig(
  fields: FieldReader,
  family: IpFamily,
): { ip: ResultIp; routes: ResultRoute[] } {
  const address = readCidr(fields, "ip", family);
  const gateway = readIp(fields, "gateway");
  return {
    ip: { address, version: String(family), ...optional("gateway", gateway) },
    routes: fields.objects("routes").map((route) => readRoute(route, family)),
  };
}

function readInterface(fields: FieldReader, isLegacy: boolean): ResultInterface {
  const name = fields.string("name");
  if (!fields.has("name")) fields.problem("name", "is missing");
  return {
    name: name ?? "",
    ...present("mac", fields.string("mac")),
    ...(isLegacy ? {} : present("mtu", fields.integer("mtu"))),
    ...present("sandbox", fields.string("sandbox")),
    ...(isLegacy ? {} : present("socketPath", fields.string("socketPath"))),
    ...(isLegacy ? {} : present("pciID", fields.string("pciID"))),
  };
}

function readIpEntry(
  fields: FieldReader,
  context: { isLegacy: boolean; interfaces: number },
): ResultIp {
  const address = readCidr(fields, "address");
  const index = fields.integer("interface", Number.MIN_SAFE_INTEGER) ?? -1;
  if (index >= context.interfaces) {
    fields.problem("interface", `index ${index} is beyond the ${context.interfaces} interfaces`);
  }
  return {
    address,
    ...present("gateway", readIp(fields, "gateway")),
    ...(index < 0 ? {} : { interface: index }),
    ...(context.isLegacy ? { version: readIpVersion(fields, address) } : {}),
  };
}

/** CNI 0.3.0 to 0.4.0: "4" or "6"; Go plugins that do not set it print "". */
function readIpVersion(fields: FieldReader, address: string): string {
  const version = fields.string("version") ?? "";
  const family = address === "" ? version : String(ipFamily(address));
  if (version !== "" && version !== family) {
    fields.problem("version", `${JSON.stringify(version)} is not the IP version of ${address}`);
  }
  return version;
}

function readRoute(fields: FieldReader, family?: IpFamily): ResultRoute {
  return {
    dst: readCidr(fields, "dst", family),
    ...present("gw", readIp(fields, "gw")),
    ...present("mtu", fields.integer("mtu")),
    ...present("advmss", fields.integer("advmss")),
    ...present("priority", fields.integer("priority")),
    ...optional("table", fields.integer("table")),
    ...optional("scope", fields.integer("scope")),
  };
}

function readDns(fields: FieldReader | undefined): ResultDns | undefined {
  if (fields === undefined) return undefined;
  const dns: ResultDns = {
    ...present("nameservers", fields.strings("nameservers")),
    ...present("domain", fields.string("domain")),
    ...present("search", fields.strings("search")),
    ...present("options", fields.strings("options")),
  };
  return Object.keys(dns).length === 0 ? undefined : dns;
}

/** A required CIDR in canonical form; "" after noting a problem. */
function readCidr(fields: FieldReader, key: string, family?: IpFamily): string {
  const text = fields.string(key);
  const cidr = tryParseCidr(text ?? "");
  if (text === undefined) {
    if (fields.value(key) === undefined) fields.problem(key, "is missing");
  } else if (cidr === undefined) {
    fields.problem(key, `invalid CIDR address: ${JSON.stringify(text)}`);
  } else if (family !== undefined && cidr.family !== family) {
    fields.problem(key, `${JSON.stringify(text)} is not IPv${family}`);
  }
  return cidr === undefined ? "" : formatCidr(cidr);
}

/** An optional address in canonical form; "" is the same as absent. */
function readIp(fields: FieldReader, key: string): string | undefined {
  const text = fields.string(key);
  if (text === undefined || text === "") return undefined;
  const ip = tryParseIp(text);
  if (ip === undefined) fields.problem(key, `invalid IP address: ${JSON.stringify(text)}`);
  return ip;
}

/** The member, unless it is absent or what Go leaves out when it prints: 0, "" and []. */
function present<K extends string, V extends string | number | readonly string[]>(
  key: K,
  value: V | undefined,
): { [P in K]?: V } {
  const isEmpty =
    value === undefined || value === 0 || (typeof value === "object" && value.length === 0);
  return isEmpty || value === "" ? {} : optional(key, value);
}

/** The member, unless it is absent. */
function optional<K extends string, V>(key: K, value: V | undefined): { [P in K]?: V } {
  const member: { [P in K]?: V } = {};
  if (value !== undefined) member[key] = value;
  return member;
}
