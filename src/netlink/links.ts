import {
  __LENGTH_Address,
  __LENGTH_Link,
  formatAddress,
  formatLink,
  MessageType,
  parseAddress,
} from "netlink/dist/rt/gen_structs.js";
import { readS32, readU32 } from "netlink/dist/structs.js";
import { type IpFamily, ipFromBytes } from "#lib/ip.ts";
import {
  decodeAttributes,
  dump,
  encodePayload,
  execute,
  familyOf,
  findAttribute,
  NetlinkError,
  type NetlinkTransport,
} from "./codec.ts";

/** A network interface. */
export interface Link {
  readonly index: number;
  readonly name: string;
  /** IFF_* bits. */
  readonly flags: number;
  /** In lower-case colon form; absent when there is none. */
  readonly mac?: string;
  readonly mtu: number;
}

/** An address of an interface. */
export interface InterfaceAddress {
  readonly ifIndex: number;
  readonly family: IpFamily;
  /** In canonical form. */
  readonly address: string;
  readonly prefix: number;
}

/** IFF_UP of `Link.flags`. */
export const linkUp = 1;

/** Offsets in the kernel's struct ifinfomsg. */
const ifinfo = { index: 4, flags: 8 } as const;
const ifla = { address: 1, ifName: 3, mtu: 4 } as const;
const ifa = { address: 1, local: 2 } as const;

/** The interfaces of a namespace. Equivalent to: `ip link show`. @throws NetlinkError */
export async function listLinks(transport: NetlinkTransport, netns: string): Promise<Link[]> {
  const header = formatLink({});
  const answers = await dump(transport, netns, { type: MessageType.GETLINK, header });
  return answers.map(decodeLink);
}

/** Whether the interface exists. Equivalent to: `ip link show dev NAME`. @throws NetlinkError */
export async function linkExists(
  transport: NetlinkTransport,
  netns: string,
  name: string,
): Promise<boolean> {
  const attributes = [{ type: ifla.ifName, data: Buffer.from(`${name}\0`) }];
  const data = encodePayload(formatLink({}), attributes);
  const [errno] = await execute(transport, netns, [{ type: MessageType.GETLINK, flags: 0, data }]);
  if (errno === undefined) return true;
  if (errno === "ENODEV") return false;
  throw new NetlinkError(`the kernel does not look up interface ${name}: ${errno}`, { errno });
}

/** The addresses of a namespace. Equivalent to: `ip address show`. @throws NetlinkError */
export async function listAddresses(
  transport: NetlinkTransport,
  netns: string,
): Promise<InterfaceAddress[]> {
  const header = formatAddress({});
  const answers = await dump(transport, netns, { type: MessageType.GETADDR, header });
  return answers.flatMap((data) => decodeAddress(data) ?? []);
}

function decodeLink(data: Buffer): Link {
  const attributes = decodeAttributes(data, __LENGTH_Link);
  const name = findAttribute(attributes, ifla.ifName);
  const mac = findAttribute(attributes, ifla.address);
  const mtu = findAttribute(attributes, ifla.mtu);
  return {
    index: readS32.call(data, ifinfo.index),
    name: name === undefined ? "" : Buffer.from(name).toString().replace(/\0.*$/s, ""),
    flags: readU32.call(data, ifinfo.flags),
    ...(mac === undefined || mac.length === 0 ? {} : { mac: formatMac(mac) }),
    mtu: mtu === undefined ? 0 : readU32.call(Buffer.from(mtu), 0),
  };
}

function formatMac(bytes: Uint8Array): string {
  return Buffer.from(bytes)
    .toString("hex")
    .replace(/..(?!$)/g, "$&:");
}

/** With a peer, `local` is the interface's own address and `address` the peer's. */
function decodeAddress(data: Buffer): InterfaceAddress | undefined {
  const header = parseAddress(data.subarray(0, __LENGTH_Address));
  const family = familyOf(header.family);
  const attributes = decodeAttributes(data, __LENGTH_Address);
  const bytes = findAttribute(attributes, ifa.local) ?? findAttribute(attributes, ifa.address);
  if (family === undefined || bytes === undefined) return undefined;
  return {
    ifIndex: header.index ?? 0,
    family,
    address: ipFromBytes(bytes),
    prefix: header.prefixlen ?? 0,
  };
}
