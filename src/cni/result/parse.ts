import { readDocument } from "#cni/document.ts";
import { type ResultFamily, resultFamily } from "#cni/versions.ts";
import { formatCidr, type IpFamily, ipFamily, tryParseCidr, tryParseIp } from "#lib/ip.ts";
import { quoteValue } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { FieldReader } from "#lib/parsing/field-reader.ts";
import type { Result, ResultDns, ResultInterface, ResultIp, ResultRoute } from "./result.ts";

/**
 * Reads a result of any version. As in Go, the case of keys does not matter, unknown keys are
 * ignored, and a negative interface index means none.
 * @throws CniError 6 naming every wrong field
 */
export function parseResult(raw: unknown, options: { fallbackVersion: string }): Result {
  const reading = { subject: "cannot decode result", reason: "DecodingFailure" } as const;
  return readDocument(raw ?? {}, { ...reading, foldCase: true }, (fields) => {
    const cniVersion = versionOfResult(fields, options.fallbackVersion);
    const family = resultFamily(cniVersion);
    const body = family === undefined ? unreadable(fields, cniVersion) : readBody(fields, family);
    return omitUndefined({ cniVersion, ...body, dns: readDns(fields.object("dns")) });
  });
}

type ResultBody = Pick<Result, "interfaces" | "ips" | "routes">;

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
  const written = fields.value("interfaces");
  const context = { isLegacy, interfaces: Array.isArray(written) ? written.length : 0 };
  const ips = fields.objects("ips").map((entry) => readIpEntry(entry, context));
  return { interfaces, ips, routes: fields.objects("routes").map((route) => readRoute(route)) };
}

/** Until 0.2.0: one address of each family, each with its routes. */
function readByFamily(fields: FieldReader): ResultBody {
  const ips: ResultIp[] = [];
  const routes: ResultRoute[] = [];
  for (const family of [4, 6] as const) {
    const config = fields.object(`ip${family}`);
    if (config === undefined) continue;
    const address = readCidr(config, "ip", family);
    const gateway = readIp(config, "gateway");
    ips.push(omitUndefined({ address, version: String(family), gateway }));
    routes.push(...config.objects("routes").map((route) => readRoute(route, family)));
  }
  return { interfaces: [], ips, routes };
}

function readInterface(fields: FieldReader, isLegacy: boolean): ResultInterface {
  const name = fields.string("name");
  if (!fields.has("name")) fields.problem("name", "is missing");
  const common = { name: name ?? "", mac: text(fields, "mac"), sandbox: text(fields, "sandbox") };
  if (isLegacy) return omitUndefined(common);
  const [socketPath, pciID] = [text(fields, "socketPath"), text(fields, "pciID")];
  return omitUndefined({ ...common, mtu: nonZero(fields, "mtu"), socketPath, pciID });
}

function readIpEntry(
  fields: FieldReader,
  context: { isLegacy: boolean; interfaces: number },
): ResultIp {
  const address = readCidr(fields, "address");
  const index = fields.integer("interface", { min: Number.MIN_SAFE_INTEGER }) ?? -1;
  if (index >= context.interfaces) {
    fields.problem("interface", `index ${index} is beyond the ${context.interfaces} interfaces`);
  }
  return omitUndefined({
    address,
    gateway: readIp(fields, "gateway"),
    interface: index < 0 ? undefined : index,
    version: context.isLegacy ? readIpVersion(fields, address) : undefined,
  });
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
  return omitUndefined({
    dst: readCidr(fields, "dst", family),
    gw: readIp(fields, "gw"),
    mtu: nonZero(fields, "mtu"),
    advmss: nonZero(fields, "advmss"),
    priority: nonZero(fields, "priority"),
    table: fields.integer("table"),
    scope: fields.integer("scope"),
  });
}

function readDns(fields: FieldReader | undefined): ResultDns | undefined {
  if (fields === undefined) return undefined;
  const dns = omitUndefined({
    nameservers: texts(fields, "nameservers"),
    domain: text(fields, "domain"),
    search: texts(fields, "search"),
    options: texts(fields, "options"),
  });
  return Object.keys(dns).length === 0 ? undefined : dns;
}

/** A required CIDR in canonical form; "" after noting a problem. */
function readCidr(fields: FieldReader, key: string, family?: IpFamily): string {
  const written = fields.string(key);
  const cidr = tryParseCidr(written ?? "");
  if (written === undefined) {
    if (fields.value(key) === undefined) fields.problem(key, "is missing");
  } else if (cidr === undefined) {
    fields.problem(key, `invalid CIDR address: ${quoteValue(written)}`);
  } else if (family !== undefined && cidr.family !== family) {
    fields.problem(key, `${quoteValue(written)} is not IPv${family}`);
  }
  return cidr === undefined ? "" : formatCidr(cidr);
}

/** An optional address in canonical form; "" means absent. */
function readIp(fields: FieldReader, key: string): string | undefined {
  const written = text(fields, key);
  if (written === undefined) return undefined;
  const ip = tryParseIp(written);
  if (ip === undefined) fields.problem(key, `invalid IP address: ${quoteValue(written)}`);
  return ip;
}

/** Go does not print 0, "" and [], so they mean absent. */
function nonZero(fields: FieldReader, key: string): number | undefined {
  return fields.integer(key) || undefined;
}

function text(fields: FieldReader, key: string): string | undefined {
  return fields.string(key) || undefined;
}

function texts(fields: FieldReader, key: string): string[] | undefined {
  const list = fields.strings(key);
  return list.length === 0 ? undefined : list;
}
