import { type IpFamily, ipFamily, parseIp } from "#lib/ip.ts";

/** The kernel's numbers of the address families. */
export const addressFamily: Readonly<Record<IpFamily, number>> = { 4: 2, 6: 10 };

/** The family with this number of the kernel's; undefined for those that are not IP. */
export function familyOf(number: number | undefined): IpFamily | undefined {
  if (number === addressFamily[4]) return 4;
  return number === addressFamily[6] ? 6 : undefined;
}

/** An address in network byte order: 4 or 16 bytes. @throws RangeError when it is none */
export function ipToBytes(text: string): Uint8Array {
  const ip = parseIp(text);
  if (ipFamily(ip) === 4) return Uint8Array.from(ip.split("."), Number);
  const [head = "", tail] = ip.split("::");
  const before = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = new Array<string>(8 - before.length - after.length).fill("0");
  const groups = [...before, ...zeros, ...after].map((group) => Number.parseInt(group, 16));
  return Uint8Array.from(groups.flatMap((group) => [group >> 8, group & 255]));
}

/** The address in canonical form. @throws RangeError when the bytes are of neither length */
export function ipFromBytes(bytes: Uint8Array): string {
  if (bytes.length === 4) return bytes.join(".");
  const groups = Array.from({ length: bytes.length >> 1 }, (_, i) =>
    (((bytes[2 * i] ?? 0) << 8) | (bytes[2 * i + 1] ?? 0)).toString(16),
  );
  return parseIp(groups.join(":"));
}

/** Whether an address lies in a network; never across families. */
export function covers(network: { address: string; prefix: number }, address: string): boolean {
  const a = ipToBytes(network.address);
  const b = ipToBytes(address);
  if (a.length !== b.length) return false;
  for (let bit = 0; bit < network.prefix; bit += 8) {
    const mask = network.prefix - bit >= 8 ? 255 : (0xff00 >> (network.prefix - bit)) & 255;
    if ((((a[bit >> 3] ?? 0) ^ (b[bit >> 3] ?? 0)) & mask) !== 0) return false;
  }
  return true;
}
