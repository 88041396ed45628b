import { constants } from "node:os";
import { Flags, FlagsGet, MessageType } from "netlink/dist/constants.js";
import {
  AttrStream,
  formatMessage,
  type NetlinkAttribute,
  type NetlinkMessage,
  pad,
  parseAttributes,
  parseError,
  parseMessages,
  readS32,
  type StreamData,
} from "netlink/dist/structs.js";
import type { IpFamily } from "#lib/ip.ts";

/** A netlink request that the kernel rejected, or whose answer is invalid. */
export class NetlinkError extends Error {
  override readonly name = "NetlinkError";
}

/** The symbol of a positive errno, e.g. `ESRCH`, or `errno 512` for an unknown one. */
function errnoName(errno: number): string {
  const found = Object.entries(constants.errno).find(([, value]) => value === errno);
  return found?.[0] ?? `errno ${errno}`;
}

/** The kernel's numbers of the address families. */
export const addressFamily: Readonly<Record<IpFamily, number>> = { 4: 2, 6: 10 };

/** Maps the kernel's AF_ constant to an IP family; undefined for other families. */
export function familyOf(number: number | undefined): IpFamily | undefined {
  if (number === addressFamily[4]) return 4;
  return number === addressFamily[6] ? 6 : undefined;
}

/**
 * Sends rtnetlink messages in one datagram, in the namespace at `netns`. Returns the answers up to
 * the last acknowledgement or the end of the dump: `DelegateHost.netlink()`.
 */
export type NetlinkTransport = (netns: string, messages: Uint8Array) => Promise<Uint8Array>;

/** An undecoded attribute: unknown ones can be sent back unchanged. */
export interface Attribute {
  readonly type: number;
  readonly data: Uint8Array;
}

/** A request: rtnetlink type, flags in addition to NLM_F_REQUEST, and payload. */
export interface Request {
  readonly type: number;
  readonly flags: number;
  readonly data: Uint8Array;
}

/** How often to repeat a dump that a change interrupted. */
const maxDumpAttempts = 5;

/** Fixed header and attributes of a payload. */
export function encodePayload(header: Uint8Array, attributes: readonly Attribute[]): Uint8Array {
  const out = new AttrStream();
  out.emit(header);
  for (const { type, data } of attributes) out.push(type, data as StreamData);
  return Buffer.concat(pad(out.bufs));
}

/** The attributes after a fixed header of `headerLength` bytes. */
export function decodeAttributes(data: Buffer, headerLength: number): Attribute[] {
  const attributes: Attribute[] = [];
  parseAttributes(data.subarray(headerLength), (item: NetlinkAttribute) => {
    attributes.push({ type: item.type, data: item.data });
  });
  return attributes;
}

/** The data of the first attribute of a type. */
export function findAttribute(all: readonly Attribute[], type: number): Uint8Array | undefined {
  return all.find((attribute) => attribute.type === type)?.data;
}

/** Encodes requests as one datagram, with sequence numbers from 1. */
function encodeRequests(requests: readonly Request[]): Uint8Array {
  const messages = requests.flatMap(({ type, flags, data }, index) =>
    pad(formatMessage({ type, flags: flags | Flags.REQUEST, seq: index + 1, port: 0, data })),
  );
  return Buffer.concat(messages);
}

/**
 * The payloads of a dump. Equivalent to: `ip link`, `ip address`, `ip route show table all`.
 * @throws NetlinkError when the kernel rejects the request
 */
export async function dump(
  transport: NetlinkTransport,
  netns: string,
  request: { readonly type: number; readonly header: Uint8Array },
): Promise<Buffer[]> {
  const message = { type: request.type, flags: FlagsGet.DUMP, data: request.header };
  for (let attempt = 1; ; attempt++) {
    const answers = decodeMessages(await transport(netns, encodeRequests([message])));
    const interrupted = answers.some(({ flags }) => (flags & Flags.DUMP_INTR) !== 0);
    checkDumpEnd(answers.at(-1));
    if (interrupted && attempt < maxDumpAttempts) continue;
    return answers.slice(0, -1).map(({ data }) => data);
  }
}

function checkDumpEnd(last: NetlinkMessage | undefined): void {
  const isEnd = last?.type === MessageType.DONE || last?.type === MessageType.ERROR;
  if (last === undefined || !isEnd)
    throw new NetlinkError("the kernel's answer to a dump has no end");
  const errno = last.data.length >= 4 ? -readS32.call(last.data, 0) : 0;
  if (errno !== 0 || last.type === MessageType.ERROR) {
    throw new NetlinkError(`the kernel refuses to dump: ${errnoName(errno)}`);
  }
}

/** The errno symbol of each request; undefined for success. @throws NetlinkError unless answered */
export async function execute(
  transport: NetlinkTransport,
  netns: string,
  requests: readonly Request[],
): Promise<(string | undefined)[]> {
  const acked = requests.map((request) => ({ ...request, flags: request.flags | Flags.ACK }));
  const answers = decodeMessages(await transport(netns, encodeRequests(acked)));
  return requests.map((_, index) => {
    const ack = answers.find(({ type, seq }) => type === MessageType.ERROR && seq === index + 1);
    if (ack === undefined)
      throw new NetlinkError(`the kernel did not acknowledge request ${index + 1}`);
    const { errno } = parseError(ack.data, ack.flags);
    return errno === 0 ? undefined : errnoName(-errno);
  });
}

function decodeMessages(bytes: Uint8Array): NetlinkMessage[] {
  try {
    return parseMessages(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  } catch (cause) {
    throw new NetlinkError("the kernel's answer cannot be decoded", { cause });
  }
}
