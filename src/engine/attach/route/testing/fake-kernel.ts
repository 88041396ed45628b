import { MessageType as ControlType, FlagsNew } from "netlink/dist/constants.js";
import { formatAddress, formatLink, MessageType, parseRoute } from "netlink/dist/rt/gen_structs.js";
import {
  formatMessage,
  type NetlinkMessage,
  parseMessages,
  putS32,
  putU32,
} from "netlink/dist/structs.js";
import { ipFamily, parseCidr } from "#lib/ip.ts";
import { encodePayload, type NetlinkTransport } from "#netlink/codec.ts";
import { addressFamily, ipToBytes } from "#netlink/ip-bytes.ts";
import { addRoute, type KernelRoute, listRoutes, newDefaultRoute } from "#netlink/routes.ts";

const enoent = 2;
const esrch = 3;
const eexist = 17;

/** As much of the kernel's rtnetlink as the default route needs: links, addresses and the routes of the main table. */
export class FakeKernel {
  /** Messages of the dumps, by the type of the request. */
  readonly #links: Buffer[] = [];
  readonly #addresses: Buffer[] = [];
  readonly #names: string[] = [];
  #routes: Buffer[] = [];
  /** How many datagrams it was sent. */
  datagrams = 0;
  /** The errno to answer a request with, instead of carrying it out. */
  refuse: (request: { type: number; data: Buffer }) => number | undefined = () => undefined;

  /** Adds an interface that is up, with the networks of its addresses. Returns its index. */
  addLink(name: string, addresses: readonly string[] = []): number {
    const index = this.#links.length + 1;
    this.#names.push(name);
    const attributes = [
      { type: 3, data: Buffer.from(`${name}\0`) },
      { type: 1, data: Buffer.from([2, 0, 0, 0, 0, index]) },
      { type: 4, data: putU32(1500) },
    ];
    this.#links.push(
      Buffer.from(encodePayload(formatLink({ index, flags: { up: true } }), attributes)),
    );
    for (const text of addresses) this.#addAddress(index, text);
    return index;
  }

  #addAddress(index: number, text: string): void {
    const { address, prefix, family } = parseCidr(text);
    const header = formatAddress({ family: addressFamily[family], prefixlen: prefix, index });
    this.#addresses.push(
      Buffer.from(encodePayload(header, [{ type: 1, data: ipToBytes(address) }])),
    );
    this.#addPayload(index, {
      family,
      prefix,
      attributes: [{ type: 1, data: ipToBytes(address) }],
    });
  }

  #addPayload(
    index: number,
    route: { family: 4 | 6; prefix: number; attributes: { type: number; data: Uint8Array }[] },
  ): void {
    const header = Buffer.from([
      addressFamily[route.family],
      route.prefix,
      0,
      0,
      254,
      2,
      253,
      1,
      0,
      0,
      0,
      0,
    ]);
    const attributes = [...route.attributes, { type: 4, data: putU32(index) }];
    this.#routes.push(Buffer.from(encodePayload(header, attributes)));
  }

  /** Adds a default route. */
  addDefault(name: string, gateway: string, metric?: number): void {
    const family = ipFamily(gateway);
    const ifIndex = this.#names.indexOf(name) + 1;
    const route = newDefaultRoute({
      family,
      ifIndex,
      gateway,
      metric: metric ?? (family === 4 ? 0 : 1024),
      onlink: false,
    });
    this.#routes.push(Buffer.from(addRoute(route).data));
  }

  /** The default routes as `via GATEWAY dev NAME metric METRIC`. */
  async defaults(): Promise<string[]> {
    const routes: KernelRoute[] = [];
    for (const family of [4, 6] as const)
      routes.push(...(await listRoutes(this.transport, "", family)));
    return routes
      .filter(({ dst }) => dst.prefix === 0)
      .map(
        ({ hops: [hop], metric }) =>
          `via ${hop?.gateway} dev ${this.#names[(hop?.ifIndex ?? 0) - 1]} metric ${metric}`,
      );
  }

  readonly transport: NetlinkTransport = (_netns, messages) => {
    this.datagrams++;
    const answers = parseMessages(Buffer.from(messages)).flatMap((request) =>
      this.#answer(request),
    );
    return Promise.resolve(Buffer.concat(answers));
  };

  #answer(request: NetlinkMessage): Uint8Array[] {
    const { type, seq, data } = request;
    const errno = this.refuse({ type, data });
    if (errno !== undefined) return this.#ack(request, errno);
    if (type === MessageType.NEWROUTE || type === MessageType.DELROUTE)
      return this.#ack(request, this.#edit(request));
    const family = data[0];
    const dumps: Readonly<Record<number, Buffer[]>> = {
      [MessageType.GETLINK]: this.#links,
      [MessageType.GETADDR]: this.#addresses,
      [MessageType.GETROUTE]: this.#routes.filter((route) => route[0] === family),
    };
    const parts = (dumps[type] ?? []).flatMap((part) =>
      formatMessage({ type, flags: 2, seq, port: 0, data: part }),
    );
    return [
      ...parts,
      ...formatMessage({ type: ControlType.DONE, flags: 2, seq, port: 0, data: putS32(0) }),
    ];
  }

  #edit({ type, flags, data }: NetlinkMessage): number {
    const at = this.#routes.findIndex((route) => route.equals(data));
    if (type === MessageType.DELROUTE) {
      if (at < 0) return esrch;
      this.#routes = this.#routes.filter((_, index) => index !== at);
      return 0;
    }
    if (parseRoute(data.subarray(0, 12)).family === undefined) return enoent;
    if (at >= 0 && (flags & FlagsNew.EXCL) !== 0) return eexist;
    this.#routes.push(Buffer.from(data));
    return 0;
  }

  #ack({ type, flags, seq, data }: NetlinkMessage, errno: number): Uint8Array[] {
    const [header = Buffer.alloc(16)] = formatMessage({ type, flags, seq, port: 0, data });
    return formatMessage({
      type: ControlType.ERROR,
      flags: 0,
      seq,
      port: 0,
      data: Buffer.concat([putS32(-errno), header]),
    });
  }
}
