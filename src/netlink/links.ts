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
  /** The alternative names, which the kernel and most plugins take like the name. */
  readonly altNames?: readonly string[];
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
  /** False for an address that only hosts of its link, or this one, can use. */
  readonly isGlobal: boolean;
}

/** IFF_UP of `Link.flags`. */
export const linkUp = 1;

/** RTM_GETLINK and RTM_GETADDR. The library's structures of rtnetlink take long to load. */
const messageType = { getLink: 18, getAddress: 22 } as const;
/** Length and offsets of the kernel's struct ifinfomsg. */
const ifinfo = { length: 16, index: 4, flags: 8 } as const;
/** Length and offsets of the kernel's struct ifaddrmsg. */
const ifaddr = { length: 8, family: 0, prefix: 1, scope: 3, index: 4 } as const;
/** RT_SCOPE_LINK; RT_SCOPE_HOST is greater. */
const scopeLink = 253;
const ifla = { address: 1, ifName: 3, mtu: 4, propList: 52, altName: 53 } as const;
const ifa = { address: 1, local: 2 } as const;

/** The interfaces of a namespace. Equivalent to: `ip link show`. @throws NetlinkError */
export async function listLinks(transport: NetlinkTransport, netns: string): Promise<Link[]> {
  const header = Buffer.alloc(ifinfo.length);
  const answers = await dump(transport, netns, { type: messageType.getLink, header });
  return answers.map(decodeLink);
}

/** Whether the interface exists. Equivalent to: `ip link show dev NAME`. @throws NetlinkError */
export async function linkExists(
  transport: NetlinkTransport,
  netns: string,
  name: string,
): Promise<boolean> {
  const attributes = [{ type: ifla.ifName, data: Buffer.from(`${name}\0`) }];
  const data = encodePayload(Buffer.alloc(ifinfo.length), attributes);
  const [errno] = await execute(transport, netns, [{ type: messageType.getLink, flags: 0, data }]);
  if (errno === undefined) return true;
  if (errno === "ENODEV") return false;
  throw new NetlinkError(`the kernel does not look up interface ${name}: ${errno}`);
}

/** The addresses of a namespace. Equivalent to: `ip address show`. @throws NetlinkError */
export async function listAddresses(
  transport: NetlinkTransport,
  netns: string,
): Promise<InterfaceAddress[]> {
  const header = Buffer.alloc(ifaddr.length);
  const answers = await dump(transport, netns, { type: messageType.getAddress, header });
  return answers.flatMap((data) => decodeAddress(data) ?? []);
}

function decodeLink(data: Buffer): Link {
  const attributes = decodeAttributes(data, ifinfo.length);
  const name = findAttribute(attributes, ifla.ifName);
  const mac = findAttribute(attributes, ifla.address);
  const mtu = findAttribute(attributes, ifla.mtu);
  const properties = findAttribute(attributes, ifla.propList);
  const altNames = decodeAttributes(Buffer.from(properties ?? []), 0)
    .filter(({ type }) => type === ifla.altName)
    .map((each) => textOf(each.data));
  return {
    index: readS32.call(data, ifinfo.index),
    name: name === undefined ? "" : textOf(name),
    ...(altNames.length > 0 && { altNames }),
    flags: readU32.call(data, ifinfo.flags),
    ...(mac === undefined || mac.length === 0 ? {} : { mac: [...mac].map(hexByte).join(":") }),
    mtu: mtu === undefined ? 0 : readU32.call(Buffer.from(mtu), 0),
  };
}

function textOf(name: Uint8Array): string {
  return Buffer.from(name).toString().replace(/\0.*$/s, "");
}

function hexByte(byte: number): string {
  return byte.toString(16).padStart(2, "0");
}

/** With a peer, `local` is the interface's own address and `address` the peer's. */
function decodeAddress(data: Buffer): InterfaceAddress | undefined {
  if (data.length < ifaddr.length) return undefined;
  const family = familyOf(data.readUInt8(ifaddr.family));
  const attributes = decodeAttributes(data, ifaddr.length);
  const bytes = findAttribute(attributes, ifa.local) ?? findAttribute(attributes, ifa.address);
  if (family === undefined || bytes === undefined) return undefined;
  return {
    ifIndex: readU32.call(data, ifaddr.index),
    family,
    address: ipFromBytes(bytes),
    prefix: data.readUInt8(ifaddr.prefix),
    isGlobal: data.readUInt8(ifaddr.scope) < scopeLink,
  };
}
