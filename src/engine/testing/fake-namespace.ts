import { FlagsGet, FlagsNew } from "netlink/dist/constants.js";
import { __LENGTH_Link, __LENGTH_Route, MessageType } from "netlink/dist/rt/gen_structs.js";
import { type NetlinkMessage, readU32 } from "netlink/dist/structs.js";
import { decodeAttributes, findAttribute } from "#netlink/codec.ts";
import { decodeRoute } from "#netlink/routes.ts";
import {
  acknowledgement,
  addressPayload,
  connectedRoutePayload,
  dumpAnswer,
  linkPayload,
  routeInterface,
} from "./rtnetlink-messages.ts";

const errno = { ESRCH: 3, EEXIST: 17, ENODEV: 19, EOPNOTSUPP: 95 } as const;

/** An interface: its addresses in CIDR notation, its MAC address, and its alternative names. */
export interface LinkState {
  readonly index: number;
  readonly addresses: readonly string[];
  readonly mac: string;
  readonly altNames?: readonly string[];
}

const loopback = { index: 1, addresses: ["127.0.0.1/8"], mac: "00:00:00:00:00:00" };

/** One network namespace: its links with their addresses, and its routes as the kernel sends them. */
export class FakeNamespace {
  readonly links = new Map<string, LinkState>([["lo", loopback]]);
  #routes: Buffer[] = [];
  /** Addresses whose routes are made when they are needed, as few tests look at routes. */
  #unrouted: { readonly index: number; readonly address: string }[] = [];
  #lastIndex = 1;

  addLink(name: string, addresses: readonly string[]): void {
    const index = ++this.#lastIndex;
    const mac = `02:00:00:00:00:${index.toString(16).padStart(2, "0")}`;
    this.links.set(name, { index, addresses: [], mac });
    this.addAddresses(name, addresses);
  }

  addAddresses(name: string, addresses: readonly string[]): void {
    const link = this.links.get(name);
    if (link === undefined) return;
    this.links.set(name, { ...link, addresses: [...link.addresses, ...addresses] });
    for (const address of addresses) this.#unrouted.push({ index: link.index, address });
  }

  setMac(name: string, mac: string): void {
    const link = this.links.get(name);
    if (link !== undefined) this.links.set(name, { ...link, mac });
  }

  setAltNames(name: string, altNames: readonly string[]): void {
    const link = this.links.get(name);
    if (link !== undefined) this.links.set(name, { ...link, altNames });
  }

  removeLink(name: string): void {
    const link = this.links.get(name);
    if (link === undefined) return;
    this.links.delete(name);
    this.#unrouted = this.#unrouted.filter(({ index }) => index !== link.index);
    this.#routes = this.#routes.filter((route) => outgoingInterface(route) !== link.index);
  }

  /** Adds a route as the kernel would send it. */
  addRoute(route: Buffer): void {
    this.#allRoutes().push(route);
  }

  routes(): readonly Buffer[] {
    return this.#allRoutes();
  }

  nameOf(ifIndex: number | undefined): string | undefined {
    return [...this.links].find(([, link]) => link.index === ifIndex)?.[0];
  }

  /** Answers one rtnetlink request. */
  carryOut(request: NetlinkMessage): Uint8Array[] {
    const { type, data } = request;
    const links = [...this.links];
    switch (type) {
      case MessageType.GETLINK: {
        if ((request.flags & FlagsGet.DUMP) === 0) return this.#findLink(request);
        const payloads = links.map(([name, link]) => linkPayload(name, link));
        return dumpAnswer(request, { type: MessageType.NEWLINK, payloads });
      }
      case MessageType.GETADDR: {
        const payloads = links.flatMap(([, { index, addresses }]) =>
          addresses.map((address) => addressPayload(index, address)),
        );
        return dumpAnswer(request, { type: MessageType.NEWADDR, payloads });
      }
      case MessageType.GETROUTE: {
        const payloads = this.#allRoutes().filter((route) => route[0] === data[0]);
        return dumpAnswer(request, { type: MessageType.NEWROUTE, payloads });
      }
      case MessageType.NEWROUTE:
        return acknowledgement(request, this.#addRoute(request));
      case MessageType.DELROUTE:
        return acknowledgement(request, this.#removeRoute(request));
      default:
        return acknowledgement(request, errno.EOPNOTSUPP);
    }
  }

  /** Answers a request for one interface by its name. */
  #findLink(request: NetlinkMessage): Uint8Array[] {
    const [name] = decodeAttributes(request.data, __LENGTH_Link);
    const isThere = this.links.has(
      Buffer.from(name?.data ?? [])
        .toString()
        .replace("\0", ""),
    );
    return acknowledgement(request, isThere ? 0 : errno.ENODEV);
  }

  /** Without NLM_F_EXCL, only an equal route is in the way; else one of the same destination and metric. */
  #addRoute({ data, flags }: NetlinkMessage): number {
    const isExclusive = (flags & FlagsNew.EXCL) !== 0;
    const exists = this.#allRoutes().some((route) =>
      isExclusive ? placeOf(route) === placeOf(data) : route.equals(data),
    );
    if (exists) return errno.EEXIST;
    this.#routes.push(Buffer.from(data));
    return 0;
  }

  #removeRoute({ data }: NetlinkMessage): number {
    const index = this.#allRoutes().findIndex((route) => route.equals(data));
    if (index < 0) return errno.ESRCH;
    this.#routes.splice(index, 1);
    return 0;
  }

  #allRoutes(): Buffer[] {
    for (const { index, address } of this.#unrouted.splice(0))
      this.#routes.push(connectedRoutePayload(index, address));
    return this.#routes;
  }
}

/** What one route has at a time, unless others are appended: family, destination and metric. */
function placeOf(route: Buffer): string {
  const { family, dst, metric } = decodeRoute(route) ?? {};
  return [family, dst?.address, dst?.prefix, metric].join(" ");
}

/** The index of a route's interface; undefined for one with several. */
function outgoingInterface(route: Buffer): number | undefined {
  const data = findAttribute(decodeAttributes(route, __LENGTH_Route), routeInterface);
  return data === undefined ? undefined : readU32.call(Buffer.from(data));
}
