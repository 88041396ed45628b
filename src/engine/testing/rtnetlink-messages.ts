import { MessageType as ControlType } from "netlink/dist/constants.js";
import { formatAddress, formatLink, formatRoute } from "netlink/dist/rt/gen_structs.js";
import { formatMessage, type NetlinkMessage, pad, putS32, putU32 } from "netlink/dist/structs.js";
import { ipToBytes, parseCidr } from "#lib/ip.ts";
import { addressFamily, encodePayload } from "#netlink/codec.ts";

/** NLM_F_MULTI: one part of an answer of several. */
const multi = 2;
const attribute = {
  link: { address: 1, name: 3, mtu: 4, propList: 52, altName: 53 },
  address: 1,
  route: { dst: 1 },
};
/** RTA_OIF */
export const routeInterface = 4;

/** RTM_NEWLINK's payload for an Ethernet interface that is up. */
export function linkPayload(
  name: string,
  {
    index,
    mac,
    altNames = [],
  }: { readonly index: number; readonly mac: string; readonly altNames?: readonly string[] },
): Uint8Array {
  const properties = altNames.map((each) => ({
    type: attribute.link.altName,
    data: Buffer.from(`${each}\0`),
  }));
  return encodePayload(formatLink({ index, flags: { up: true } }), [
    { type: attribute.link.name, data: Buffer.from(`${name}\0`) },
    { type: attribute.link.address, data: Buffer.from(mac.replaceAll(":", ""), "hex") },
    { type: attribute.link.mtu, data: putU32(1500) },
    ...(properties.length === 0
      ? []
      : [{ type: attribute.link.propList, data: encodePayload(Buffer.alloc(0), properties) }]),
  ]);
}

/** RT_SCOPE_LINK. */
const scopeLink = 253;

/** RTM_NEWADDR's payload for an address in CIDR notation. */
export function addressPayload(index: number, cidr: string): Uint8Array {
  const { address, prefix, family } = parseCidr(cidr);
  const scope = address.startsWith("fe80:") ? scopeLink : 0;
  const header = formatAddress({ family: addressFamily[family], prefixlen: prefix, scope, index });
  return encodePayload(header, [{ type: attribute.address, data: ipToBytes(address) }]);
}

/** RTM_NEWROUTE's payload for the network of an address: main table, kernel, scope link, unicast. */
export function connectedRoutePayload(index: number, cidr: string): Buffer {
  const { address, prefix, family } = parseCidr(cidr);
  const header = formatRoute({
    family: addressFamily[family],
    dstLen: prefix,
    table: 254,
    protocol: 2,
    scope: scopeLink,
    type: 1,
  });
  const attributes = [
    { type: attribute.route.dst, data: ipToBytes(address) },
    { type: routeInterface, data: putU32(index) },
  ];
  return Buffer.from(encodePayload(header, attributes));
}

/** The answer to a dump request: one message for each payload, and the end. */
export function dumpAnswer(
  { seq }: NetlinkMessage,
  { type, payloads }: { readonly type: number; readonly payloads: readonly Uint8Array[] },
): Uint8Array[] {
  const part = { flags: multi, seq, port: 0 };
  return [
    ...payloads.flatMap((data) => pad(formatMessage({ ...part, type, data }))),
    ...pad(formatMessage({ ...part, type: ControlType.DONE, data: putS32(0) })),
  ];
}

/** The acknowledgement of a request: errno 0, or why the kernel refuses it. */
export function acknowledgement(
  { type, flags, seq, data }: NetlinkMessage,
  errno: number,
): Uint8Array[] {
  const [header = Buffer.alloc(16)] = formatMessage({ type, flags, seq, port: 0, data });
  const payload = Buffer.concat([putS32(-errno), header]);
  return formatMessage({ type: ControlType.ERROR, flags: 0, seq, port: 0, data: payload });
}
