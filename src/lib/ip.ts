import ipaddr from "ipaddr.js";

/** The version of the Internet Protocol that an address belongs to. */
export type IpFamily = 4 | 6;

interface Network {
  readonly address: string;
  readonly prefix: number;
}

/** An address with its prefix length; the address keeps its host bits. */
export interface Cidr extends Network {
  /** In the form that {@link parseIp} returns. */
  readonly address: string;
  readonly family: IpFamily;
}

export const addressBits = { 4: 32, 6: 128 } as const;

export const anyDestination = { 4: "0.0.0.0/0", 6: "::/0" } as const;

/** IPv4 as Go reads it, which is its canonical form, too. */
const dottedQuad = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/;

/** The bits of the prefix ::ffff:0:0/96, under which IPv6 maps IPv4. */
const mappedPrefixBits = 96;

/**
 * Reads an address as Go's net.ParseIP does and returns its canonical form: IPv6 as in RFC 5952,
 * IPv4 mapped into IPv6 as IPv4.
 * @throws RangeError for anything else, zones and leading zeros included
 */
export function parseIp(text: string): string {
  const ip = tryParseIp(text);
  if (ip === undefined) throw new RangeError(`invalid IP address: ${JSON.stringify(text)}`);
  return ip;
}

/** As {@link parseIp}, but undefined instead of an error. */
export function tryParseIp(text: string): string | undefined {
  return dottedQuad.test(text) ? text : tryParseIpv6(text);
}

const notOfOneHost = ["unspecified", "loopback", "linkLocal", "multicast", "broadcast"];

/** As {@link tryParseIp}, but undefined for an address that other hosts cannot reach. */
export function tryParseReachableIp(text: string): string | undefined {
  const ip = tryParseIp(text);
  return ip === undefined || notOfOneHost.includes(ipaddr.parse(ip).range()) ? undefined : ip;
}

/** Reads `address/prefix` as Go's net.ParseCIDR, but keeps the host bits. @throws RangeError */
export function parseCidr(text: string): Cidr {
  const cidr = tryParseCidr(text);
  if (cidr === undefined) throw new RangeError(`invalid CIDR address: ${JSON.stringify(text)}`);
  return cidr;
}

/** As {@link parseCidr}, but undefined instead of an error. */
export function tryParseCidr(text: string): Cidr | undefined {
  const slash = text.lastIndexOf("/");
  const digits = text.slice(slash + 1);
  const address = slash < 0 ? undefined : tryParseIp(text.slice(0, slash));
  if (address === undefined || !/^\d{1,6}$/.test(digits)) return undefined;
  const family = address.includes(":") ? 6 : 4;
  // The prefix of an IPv4 address that is written as IPv6 counts the 96 bits before it.
  const isMapped = family === 4 && text.includes(":");
  const prefix = Number(digits) - (isMapped ? mappedPrefixBits : 0);
  if (prefix < 0 || prefix > addressBits[family]) return undefined;
  return { address, prefix, family };
}

/** A network: as {@link tryParseCidr}, but undefined with host bits, too. */
export function tryParseNetwork(text: string): Cidr | undefined {
  const cidr = tryParseCidr(text);
  if (cidr === undefined) return undefined;
  const bits = Array.from(ipToBytes(cidr.address), (byte) => byte.toString(2).padStart(8, "0"));
  return bits.join("").slice(cidr.prefix).includes("1") ? undefined : cidr;
}

/** Whether all of a network lies in another one; false across families. @throws RangeError */
export function contains(network: Network, part: Network): boolean {
  return network.prefix <= part.prefix && covers(network, part.address);
}

/** Writes what {@link parseCidr} read. */
export function formatCidr(cidr: Network): string {
  return `${cidr.address}/${cidr.prefix}`;
}

/** The family of an address or CIDR; IPv4 mapped into IPv6 is 4. @throws RangeError */
export function ipFamily(text: string): IpFamily {
  const ip = text.includes("/") ? parseCidr(text).address : parseIp(text);
  return ip.includes(":") ? 6 : 4;
}

/** Whether a route's destination is 0.0.0.0/0 or ::/0. */
export function isDefaultRoute(dst: string): boolean {
  return tryParseCidr(dst)?.prefix === 0;
}

/** Whether an address lies in a network; false across families. @throws RangeError */
export function covers(network: Network, address: string): boolean {
  const [base, ip] = [ipaddr.parse(parseIp(network.address)), ipaddr.parse(parseIp(address))];
  return base.kind() === ip.kind() && ip.match(base, network.prefix);
}

/** An address in network byte order: 4 or 16 bytes. @throws RangeError when it is not an address */
export function ipToBytes(text: string): Uint8Array {
  return Uint8Array.from(ipaddr.parse(parseIp(text)).toByteArray());
}

/** The canonical form of an address of 4 or 16 bytes. @throws Error for another length */
export function ipFromBytes(bytes: Uint8Array): string {
  return parseIp(ipaddr.fromByteArray([...bytes]).toString());
}

/**
 * ipaddr.js also accepts zones, parts in octal or hexadecimal and leading zeros, and reads ::1.2.3.4 as
 * ::ffff:1.2.3.4. Go does not, so a dotted end is checked and rewritten before the library reads it.
 */
function tryParseIpv6(text: string): string | undefined {
  if (!/^[\da-fA-F:.]+$/.test(text)) return undefined;
  const end = text.slice(text.lastIndexOf(":") + 1);
  const groups = dottedQuad.test(end) ? text.slice(0, -end.length) + hexGroups(end) : text;
  if (groups.includes(".") || !ipaddr.IPv6.isValid(groups)) return undefined;
  const ip = ipaddr.IPv6.parse(groups);
  return ip.isIPv4MappedAddress() ? ip.toIPv4Address().toString() : ip.toRFC5952String();
}

function hexGroups(ipv4: string): string {
  const [a = 0, b = 0, c = 0, d = 0] = ipv4.split(".").map(Number);
  return `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
}
