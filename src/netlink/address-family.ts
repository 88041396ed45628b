import type { IpFamily } from "#lib/ip.ts";

/** The kernel's numbers of the address families. */
export const addressFamily: Readonly<Record<IpFamily, number>> = { 4: 2, 6: 10 };

/** Maps the kernel's AF_ constant to an IP family; undefined for other families. */
export function familyOf(number: number | undefined): IpFamily | undefined {
  if (number === addressFamily[4]) return 4;
  return number === addressFamily[6] ? 6 : undefined;
}
