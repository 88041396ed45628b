import { FlagsNew } from "netlink/dist/constants.js";
import {
  __LENGTH_Route,
  formatRoute,
  MessageType,
  parseRoute,
  type Route,
  RouteProtocol,
  RouteScope,
  RouteType,
  RoutingTableClass,
} from "netlink/dist/rt/gen_structs.js";
import { putU32, readS32, readU16, readU32 } from "netlink/dist/structs.js";
import { type Cidr, type IpFamily, ipFromBytes, ipToBytes } from "#lib/ip.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import {
  type Attribute,
  addressFamily,
  decodeAttributes,
  dump,
  encodePayload,
  familyOf,
  findAttribute,
  type NetlinkTransport,
  type Request,
} from "./codec.ts";

/** A next hop. */
export interface Hop {
  readonly ifIndex: number;
  /** Absent when the destination is on-link. */
  readonly gateway?: string;
  /** Treat the gateway as on-link, whatever other routes say: `onlink`. */
  readonly onlink: boolean;
  /** The hop of a multipath route as the kernel sent it: struct rtnexthop, attributes, padding. */
  readonly wire?: Uint8Array;
}

/** A unicast route of the main table. */
export interface KernelRoute {
  readonly family: IpFamily;
  readonly dst: { readonly address: string; readonly prefix: number };
  readonly metric: number;
  readonly hops: readonly Hop[];
  /** As the kernel sent it, to remove and restore it exactly. */
  readonly wire: { readonly header: Route; readonly attributes: readonly Attribute[] };
}

const rta = {
  dst: 1,
  oif: 4,
  gateway: 5,
  priority: 6,
  multipath: 9,
  cacheInfo: 12,
  table: 15,
  via: 18,
  nhId: 30,
} as const;

/** RTNH_F_ONLINK: the only route flag that the kernel accepts in a request. */
const onlinkFlag = 4;

/** The metric of a route without one. */
export const kernelMetric: Readonly<Record<IpFamily, number>> = { 4: 0, 6: 1024 };

/**
 * The unicast routes of one family in the main table, except those with a source prefix.
 * Equivalent to: `ip -4 route show table main type unicast`.
 * @throws NetlinkError
 */
export async function listRoutes(
  transport: NetlinkTransport,
  netns: string,
  family: IpFamily,
): Promise<KernelRoute[]> {
  const header = formatRoute({ family: addressFamily[family] });
  const answers = await dump(transport, netns, { type: MessageType.GETROUTE, header });
  return answers.flatMap((data) => decodeRoute(data) ?? []);
}

/** Whether it is a default route: `0.0.0.0/0` or `::/0`. */
export function isDefault(route: KernelRoute): boolean {
  return route.dst.prefix === 0;
}

/** A route as the kernel sends it; undefined for one of another table or type. @internal */
export function decodeRoute(data: Buffer): KernelRoute | undefined {
  const header = parseRoute(data.subarray(0, __LENGTH_Route));
  const family = familyOf(header.family);
  const attributes = decodeAttributes(data, __LENGTH_Route);
  const table = u32(attributes, rta.table) ?? header.table;
  const isUnicast = header.type === RouteType.UNICAST || header.type === "UNICAST";
  const isMain = table === RoutingTableClass.MAIN;
  if (family === undefined || !isUnicast || !isMain || (header.srcLen ?? 0) !== 0) return undefined;
  const dst = findAttribute(attributes, rta.dst);
  const address = dst === undefined ? anyAddress[family] : ipFromBytes(dst);
  return {
    family,
    dst: { address, prefix: header.dstLen ?? 0 },
    metric: u32(attributes, rta.priority) ?? 0,
    hops: decodeHops(header, attributes),
    wire: { header, attributes },
  };
}

const anyAddress: Readonly<Record<IpFamily, string>> = { 4: "0.0.0.0", 6: "::" };

function decodeHops(header: Route, attributes: readonly Attribute[]): Hop[] {
  const multipath = findAttribute(attributes, rta.multipath);
  if (multipath !== undefined) return decodeMultipath(Buffer.from(multipath));
  const hop = {
    ifIndex: u32(attributes, rta.oif) ?? 0,
    onlink: ((header.flags?.__unknown ?? 0) & onlinkFlag) !== 0,
  };
  return [{ ...hop, ...gatewayOf(attributes) }];
}

function decodeMultipath(bytes: Buffer): Hop[] {
  return Array.from(multipathHops(bytes), ({ hop, wire }) => ({
    ifIndex: readS32.call(hop, 4),
    onlink: ((hop[2] ?? 0) & onlinkFlag) !== 0,
    ...gatewayOf(decodeAttributes(hop, 8)),
    wire,
  }));
}

/** Each struct rtnexthop (length, flags, weight minus one, interface) with attributes, and padding. */
function* multipathHops(bytes: Buffer) {
  for (let rest = bytes; rest.length >= 8; ) {
    const length = readU16.call(rest, 0);
    const next = (length + 3) & ~3;
    if (length < 8 || length > rest.length) return;
    yield { hop: rest.subarray(0, length), wire: rest.subarray(0, next) };
    rest = rest.subarray(next);
  }
}

/** The gateway; an IPv4 route may have an IPv6 one (RTA_VIA: family, then address). */
function gatewayOf(attributes: readonly Attribute[]): { gateway?: string } {
  const via = findAttribute(attributes, rta.via)?.subarray(2);
  const bytes = findAttribute(attributes, rta.gateway) ?? via;
  return bytes === undefined ? {} : { gateway: ipFromBytes(bytes) };
}

/** A default route of an attachment, not yet in the kernel. */
export interface NewDefaultRoute {
  readonly family: IpFamily;
  readonly ifIndex: number;
  /** Absent when everything is on the link. */
  readonly gateway?: string | undefined;
  readonly metric: number;
  readonly onlink: boolean;
}

/** The kernel's form of: `default via GATEWAY dev IFNAME metric METRIC [onlink]`. */
export function newDefaultRoute(route: NewDefaultRoute): KernelRoute {
  const { family, ifIndex, gateway, metric, onlink } = route;
  return {
    family,
    dst: { address: anyAddress[family], prefix: 0 },
    metric,
    hops: [omitUndefined({ ifIndex, gateway, onlink })],
    wire: {
      header: {
        family: addressFamily[family],
        table: RoutingTableClass.MAIN,
        protocol: RouteProtocol.BOOT,
        type: RouteType.UNICAST,
        ...(gateway === undefined && { scope: RouteScope.LINK }),
        flags: { __unknown: onlink ? onlinkFlag : 0 },
      },
      attributes: [
        { type: rta.oif, data: putU32(ifIndex) },
        ...(gateway === undefined ? [] : [{ type: rta.gateway, data: ipToBytes(gateway) }]),
        ...(metric === 0 ? [] : [{ type: rta.priority, data: putU32(metric) }]),
      ],
    },
  };
}

/** The protocol (`ip route show proto 112`) of routes that Plexus keeps to the cluster: nothing else has it. */
const keptProtocol = 112 as number as RouteProtocol;

/** Whether it is one of {@link keptRoute}. */
export function isKeptRoute({ wire }: KernelRoute): boolean {
  return wire.header.protocol === keptProtocol;
}

/** A route to a network by the hops of another route, with its metric and attributes such as the MTU. */
export function keptRoute({ address, prefix }: Cidr, by: KernelRoute): KernelRoute {
  const header = { ...by.wire.header, dstLen: prefix, protocol: keptProtocol };
  const attributes = by.wire.attributes.filter(({ type }) => type !== rta.dst);
  const dst = { type: rta.dst, data: ipToBytes(address) };
  return { ...by, dst: { address, prefix }, wire: { header, attributes: [dst, ...attributes] } };
}

/** A multipath route with only some of its hops, which are sent back unchanged. */
export function withHops(route: KernelRoute, hops: readonly Hop[]): KernelRoute {
  const replaced: readonly number[] = [rta.oif, rta.gateway, rta.via, rta.nhId, rta.multipath];
  const kept = route.wire.attributes.filter(({ type }) => !replaced.includes(type));
  const data = Buffer.concat(hops.flatMap((hop) => hop.wire ?? []));
  const attributes = [...kept, { type: rta.multipath, data }];
  return { ...route, hops, wire: { header: route.wire.header, attributes } };
}

/**
 * A request to add a route. Equivalent to: `ip route add`, or with `append` `ip route append`,
 * which succeeds even if an equal route exists.
 */
export function addRoute(route: KernelRoute, options: { append?: boolean } = {}): Request {
  const flags = FlagsNew.CREATE | (options.append === true ? FlagsNew.APPEND : FlagsNew.EXCL);
  return { type: MessageType.NEWROUTE, flags, data: routePayload(route) };
}

/** A request to remove a route. Equivalent to: `ip route del`. */
export function deleteRoute(route: KernelRoute): Request {
  return { type: MessageType.DELROUTE, flags: 0, data: routePayload(route) };
}

/**
 * The payload of a route request. State that the kernel reports but does not accept is left out:
 * flags except `onlink`, the cache's state, and the hops that a nexthop object stands for.
 */
function routePayload(route: KernelRoute): Uint8Array {
  const { header, attributes } = route.wire;
  const isByObject = attributes.some(({ type }) => type === rta.nhId);
  const dropped: readonly number[] = isByObject
    ? [rta.cacheInfo, rta.oif, rta.gateway, rta.via, rta.multipath]
    : [rta.cacheInfo];
  const kept = attributes
    .filter(({ type }) => !dropped.includes(type))
    .map((attribute) => (attribute.type === rta.multipath ? withoutState(attribute) : attribute));
  const flags = { __unknown: isByObject ? 0 : (header.flags?.__unknown ?? 0) & onlinkFlag };
  return encodePayload(formatRoute({ ...header, flags }), kept);
}

/** The hops without flags except `onlink`; other bytes are unchanged. */
function withoutState(multipath: Attribute): Attribute {
  const data = Buffer.from(multipath.data);
  for (const { hop } of multipathHops(data)) hop[2] = (hop[2] ?? 0) & onlinkFlag;
  return { ...multipath, data };
}

function u32(attributes: readonly Attribute[], type: number): number | undefined {
  const data = findAttribute(attributes, type);
  return data === undefined || data.length < 4 ? undefined : readU32.call(Buffer.from(data), 0);
}
