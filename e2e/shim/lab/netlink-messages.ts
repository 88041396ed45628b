/* rtnetlink messages, written independently of src/netlink. Every machine that Plexus supports is little-endian. */

export const RTM_NEWLINK = 16;
export const RTM_DELLINK = 17;
export const RTM_GETLINK = 18;
export const RTM_NEWROUTE = 24;
export const RTM_DELROUTE = 25;
export const RTM_GETROUTE = 26;
export const RTM_NEWNSID = 88;
const REQUEST = 1;
export const ACK = 4;
export const DUMP = 0x300;
export const CREATE = 0x400;

export type Attribute = readonly [type: number, data: Uint8Array];

/** Length (of a part, its type and content), type, content, padding. */
function attribute([type, data]: Attribute): Buffer {
  const bytes = Buffer.alloc(4 + ((data.length + 3) & ~3));
  bytes.writeUInt16LE(4 + data.length, 0);
  bytes.writeUInt16LE(type, 2);
  bytes.set(data, 4);
  return bytes;
}

export function nested(...attributes: Attribute[]): Buffer {
  return Buffer.concat(attributes.map(attribute));
}

export function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

interface MessageParts {
  readonly flags?: number;
  readonly seq?: number;
  readonly fixed: Uint8Array;
  readonly attributes?: readonly Attribute[];
}

export function message(
  type: number,
  { flags = 0, seq = 1, fixed, attributes = [] }: MessageParts,
): Buffer {
  const payload = Buffer.concat([fixed, nested(...attributes)]);
  const head = Buffer.alloc(16);
  head.writeUInt32LE(16 + payload.length, 0);
  head.writeUInt16LE(type, 4);
  head.writeUInt16LE(REQUEST | flags, 6);
  head.writeUInt32LE(seq, 8);
  return Buffer.concat([head, payload]);
}

/** A link message with no attributes, or only a name to look it up by. */
export function linkMessage(type: number, { flags = 0, seq = 1, name = "" }): Buffer {
  const attributes: Attribute[] = name === "" ? [] : [[IFLA.ifName, Buffer.from(`${name}\0`)]];
  return message(type, { flags, seq, fixed: Buffer.alloc(16), attributes });
}

/** A message about an IPv4 route of the main table: its destination's prefix, and attributes. */
export function routeMessage(
  type: number,
  { flags = ACK, seq = 1, family = 2, prefix = 24, attributes = [] as readonly Attribute[] },
): Buffer {
  const fixed = Buffer.of(family, prefix, 0, 0, 254, 3, 253, 1, 0, 0, 0, 0);
  return message(type, { flags, seq, fixed, attributes });
}

export const IFLA = {
  ifName: 3,
  linkInfo: 18,
  netNsPid: 19,
  netNsFd: 28,
  targetNetnsId: 46,
} as const;
export const RTA = {
  ...{ dst: 1, src: 2, oif: 4, gateway: 5, priority: 6, prefSrc: 7, metrics: 8, multipath: 9 },
  ...{ flow: 11, cacheInfo: 12, table: 15, via: 18, pref: 20, encapType: 21, encap: 22, nhId: 30 },
} as const;
/** 10.9.0.0 on `lo`, which is always interface 1. */
export const toLo: Attribute[] = [
  [RTA.dst, Buffer.of(10, 9, 0, 0)],
  [RTA.oif, u32(1)],
];
export const addRoute = routeMessage(RTM_NEWROUTE, { flags: ACK | CREATE, attributes: toLo });
export const deleteRoute = routeMessage(RTM_DELROUTE, { attributes: toLo });

/** The message types, link names and errors in a reply. */
export function readReply(bytes: Buffer): { types: number[]; names: string[]; errors: number[] } {
  const reply = { types: [] as number[], names: [] as string[], errors: [] as number[] };
  for (let at = 0; at < bytes.length; at += (bytes.readUInt32LE(at) + 3) & ~3) {
    const type = bytes.readUInt16LE(at + 4);
    reply.types.push(type);
    if (type === 2) reply.errors.push(bytes.readInt32LE(at + 16));
    if (type !== RTM_NEWLINK) continue;
    for (let a = at + 32; a < at + bytes.readUInt32LE(at); a += (bytes.readUInt16LE(a) + 3) & ~3)
      if (bytes.readUInt16LE(a + 2) === 3)
        reply.names.push(bytes.toString("latin1", a + 4, a + bytes.readUInt16LE(a) - 1));
  }
  return reply;
}

/** A next hop on `lo` (struct rtnexthop) with attributes. */
export function hop(...attributes: Attribute[]): Buffer {
  const content = nested(...attributes);
  const head = Buffer.alloc(8);
  head.writeUInt16LE(8 + content.length, 0);
  head.writeInt32LE(1, 4);
  return Buffer.concat([head, content]);
}
