/** The version of the Internet Protocol that an address belongs to. */
export type IpFamily = 4 | 6;

/** An address with its prefix length; the address keeps its host bits. */
interface Cidr {
  /** As {@link parseIp} writes it. */
  readonly address: string;
  readonly prefix: number;
  readonly family: IpFamily;
}

/** The bits of an address: the prefix length of one alone. */
export const addressBits = { 4: 32, 6: 128 } as const;

/** The destination of a default route. */
export const anyDestination = { 4: "0.0.0.0/0", 6: "::/0" } as const;

/** The bits of the prefix ::ffff:0:0/96, under which IPv6 maps IPv4. */
const mappedPrefixBits = 96;

/**
 * Reads an address as Go's net.ParseIP does and writes it in its one canonical form: IPv6 as of
 * RFC 5952, IPv4 mapped into IPv6 as IPv4. Zones and leading zeros are refused.
 * @throws RangeError when it is none
 */
export function parseIp(text: string): string {
  const ip = tryParseIp(text);
  if (ip === undefined) {
    throw new RangeError(`invalid IP address: ${JSON.stringify(text)}`);
  }
  return ip;
}

/** As {@link parseIp}, but undefined instead of an error. */
export function tryParseIp(text: string): string | undefined {
  const groups = parseGroups(text);
  return groups === undefined ? undefined : formatGroups(groups);
}

/**
 * Reads `address/prefix` as Go's net.ParseCIDR does, but keeps the host bits, as CNI needs them.
 * @throws RangeError when it is none
 */
export function parseCidr(text: string): Cidr {
  const cidr = tryParseCidr(text);
  if (cidr === undefined) {
    throw new RangeError(`invalid CIDR address: ${JSON.stringify(text)}`);
  }
  return cidr;
}

/** As {@link parseCidr}, but undefined instead of an error. */
export function tryParseCidr(text: string): Cidr | undefined {
  const slash = text.lastIndexOf("/");
  const digits = text.slice(slash + 1);
  const groups = slash < 0 ? undefined : parseGroups(text.slice(0, slash));
  if (groups === undefined || !/^\d{1,6}$/.test(digits)) return undefined;
  const address = formatGroups(groups);
  const family = address.includes(":") ? 6 : 4;
  // The prefix of an IPv4 address that was written as IPv6 counts the 96 bits before it.
  const mapped = family === 4 && text.includes(":");
  const prefix = Number(digits) - (mapped ? mappedPrefixBits : 0);
  return prefix >= 0 && prefix <= addressBits[family] ? { address, prefix, family } : undefined;
}

/** Writes what {@link parseCidr} read. */
export function formatCidr(cidr: Cidr): string {
  return `${cidr.address}/${cidr.prefix}`;
}

/** The family of an address, with or without a prefix; IPv4 mapped into IPv6 is 4. @throws RangeError when it is none */
export function ipFamily(text: string): IpFamily {
  const ip = text.includes("/") ? parseCidr(text).address : parseIp(text);
  return ip.includes(":") ? 6 : 4;
}

/** Whether a route's destination is everything: 0.0.0.0/0, ::/0. What is no CIDR is no default route. */
export function isDefaultRoute(dst: string): boolean {
  return tryParseCidr(dst)?.prefix === 0;
}

/** The eight 16-bit groups of an address, IPv4 mapped to IPv6; undefined when it is not one. */
function parseGroups(text: string): readonly number[] | undefined {
  if (!text.includes(":")) {
    const low = parseDotted(text);
    return low === undefined ? undefined : [0, 0, 0, 0, 0, 0xffff, ...low];
  }
  const halves = text.split("::");
  if (halves.length > 2) return undefined;
  const head = parseSide(halves[0] ?? "", halves.length === 1);
  const tail = halves.length === 1 ? [] : parseSide(halves[1] ?? "", true);
  if (head === undefined || tail === undefined) return undefined;
  const missing = 8 - head.length - tail.length;
  // "::" stands for at least one group; without it there must be exactly eight.
  if (halves.length === 1 ? missing !== 0 : missing < 1) return undefined;
  return [...head, ...new Array<number>(missing).fill(0), ...tail];
}

/** The groups on one side of "::"; only at the very end may the last one be dotted IPv4. */
function parseSide(text: string, isEnd: boolean): readonly number[] | undefined {
  if (text === "") return [];
  const groups: number[] = [];
  const parts = text.split(":");
  for (const [index, part] of parts.entries()) {
    const dotted = isEnd && index === parts.length - 1 && part.includes(".");
    const parsed = dotted ? parseDotted(part) : parseHex(part);
    if (parsed === undefined) return undefined;
    groups.push(...parsed);
  }
  return groups;
}

function parseHex(text: string): readonly number[] | undefined {
  return /^[0-9a-fA-F]{1,4}$/.test(text) ? [Number.parseInt(text, 16)] : undefined;
}

function parseDotted(text: string): readonly number[] | undefined {
  const parts = text.split(".");
  if (parts.length !== 4 || !parts.every((part) => /^(0|[1-9]\d{0,2})$/.test(part))) {
    return undefined;
  }
  const [a = 0, b = 0, c = 0, d = 0] = parts.map(Number);
  return Math.max(a, b, c, d) > 255 ? undefined : [a * 256 + b, c * 256 + d];
}

function formatGroups(groups: readonly number[]): string {
  const [, , , , , mark, high = 0, low = 0] = groups;
  if (mark === 0xffff && groups.slice(0, 5).every((group) => group === 0)) {
    return [high >> 8, high & 255, low >> 8, low & 255].join(".");
  }
  const hex = groups.map((group) => group.toString(16));
  const run = longestZeroRun(groups);
  if (run.length < 2) return hex.join(":");
  return `${hex.slice(0, run.start).join(":")}::${hex.slice(run.start + run.length).join(":")}`;
}

/** RFC 5952 §4.2: the longest run of zero groups is compressed, the first one of several. */
function longestZeroRun(groups: readonly number[]): { start: number; length: number } {
  let best = { start: 0, length: 0 };
  let start = 0;
  for (const [index, group] of groups.entries()) {
    if (group !== 0) start = index + 1;
    else if (index + 1 - start > best.length) best = { start, length: index + 1 - start };
  }
  return best;
}
