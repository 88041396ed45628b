import { FlagsGet, FlagsNew } from "netlink/dist/constants.js";
import { __LENGTH_Link, MessageType } from "netlink/dist/rt/gen_structs.js";
import type { NetlinkMessage } from "netlink/dist/structs.js";
import { decodeAttributes } from "#netlink/codec.ts";
import {
  acknowledgement,
  addressPayload,
  connectedRoutePayload,
  dumpAnswer,
  linkPayload,
} from "./rtnetlink-messages.ts";

const errno = { ESRCH: 3, EEXIST: 17, ENODEV: 19, EOPNOTSUPP: 95 } as const;

interface FakeLink {
  readonly index: number;
  readonly addresses: readonly string[];
}

/** One network namespace: its links with their addresses, and its routes as the kernel sends them. */
export class FakeNamespace {
  readonly links = new Map<string, FakeLink>([["lo", { index: 1, addresses: ["127.0.0.1/8"] }]]);
  routes: Buffer[] = [];
  #lastIndex = 1;

  addLink(name: string, addresses: readonly string[]): void {
    const index = ++this.#lastIndex;
    this.links.set(name, { index, addresses });
    this.routes.push(...addresses.map((address) => connectedRoutePayload(index, address)));
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
        const payloads = links.map(([name, { index }]) => linkPayload(index, name));
        return dumpAnswer(request, { type: MessageType.NEWLINK, payloads });
      }
      case MessageType.GETADDR: {
        const payloads = links.flatMap(([, { index, addresses }]) =>
          addresses.map((address) => addressPayload(index, address)),
        );
        return dumpAnswer(request, { type: MessageType.NEWADDR, payloads });
      }
      case MessageType.GETROUTE: {
        const payloads = this.routes.filter((route) => route[0] === data[0]);
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

  #addRoute({ flags, data }: NetlinkMessage): number {
    const exists = this.routes.some((route) => route.equals(data));
    if (exists && (flags & FlagsNew.EXCL) !== 0) return errno.EEXIST;
    this.routes.push(Buffer.from(data));
    return 0;
  }

  #removeRoute({ data }: NetlinkMessage): number {
    const index = this.routes.findIndex((route) => route.equals(data));
    if (index < 0) return errno.ESRCH;
    this.routes = this.routes.toSpliced(index, 1);
    return 0;
  }
}
