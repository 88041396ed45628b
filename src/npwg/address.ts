import { tryParseCidr, tryParseIp } from "#lib/ip.ts";

/** Whether the text is an IPv4 or IPv6 address, as Go's `net.ParseIP` reads it: no zone, no leading zeros. */
export function isIp(text: string): boolean {
  return tryParseIp(text) !== undefined;
}

/** Whether the text is an address with a prefix length. */
export function isCidr(text: string): boolean {
  return tryParseCidr(text) !== undefined;
}
