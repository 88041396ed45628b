import { FlagsNew } from "netlink/dist/constants.js";
import { MessageType } from "netlink/dist/rt/gen_structs.js";
import { type NetlinkMessage, parseMessages } from "netlink/dist/structs.js";
import { NetnsError } from "#engine/ports.ts";
import { ipFamily } from "#lib/ip.ts";
import type { NetlinkTransport } from "#netlink/codec.ts";
import {
  addRoute,
  isDefault,
  type KernelRoute,
  kernelMetric,
  listRoutes,
  newDefaultRoute,
} from "#netlink/routes.ts";
import {
  acknowledgement,
  addressPayload,
  connectedRoutePayload,
  dumpAnswer,
  linkPayload,
} from "./rtnetlink-messages.ts";

const errno = { ENOENT: 2, ESRCH: 3, EEXIST: 17, EOPNOTSUPP: 95 } as const;

interface FakeLink {
  readonly index: number;
  readonly addresses: readonly string[];
}

/** One network namespace: its links with their addresses, and its routes as the kernel sends them. */
class FakeNamespace {
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
}

/**
 * As much of the kernel's rtnetlink as the engine uses: network namespaces by path, whose links,
 * addresses and routes can be listed, and whose routes can be added and removed.
 */
export class FakeKernel {
  readonly #namespaces = new Map<string, FakeNamespace>();
  /** How many datagrams it was sent. */
  datagrams = 0;
  /** The errno with which a request is refused; undefined = it is carried out. */
  refuse: (request: { readonly type: number }) => number | undefined = () => undefined;

  /** Adds a namespace with its loopback interface. */
  addNamespace(netns: string): void {
    this.#namespaces.set(netns, new FakeNamespace());
  }

  removeNamespace(netns: string): void {
    this.#namespaces.delete(netns);
  }

  /** Adds an interface that is up, with routes to the networks of its addresses; no effect without the namespace. */
  addLink(netns: string, name: string, addresses: readonly string[] = []): void {
    this.#namespaces.get(netns)?.addLink(name, addresses);
  }

  removeLink(netns: string, name: string): void {
    this.#namespaces.get(netns)?.links.delete(name);
  }

  /** The names of a namespace's interfaces except `lo`, sorted. */
  linkNames(netns: string): string[] {
    const names = [...(this.#namespaces.get(netns)?.links.keys() ?? [])];
    return names.filter((name) => name !== "lo").sort();
  }

  /** Adds a default route. Equivalent to: `ip route add default via GATEWAY dev NAME [metric METRIC]`. */
  addDefaultRoute(
    netns: string,
    { dev, gateway, metric }: { dev: string; gateway: string; metric?: number },
  ): void {
    const namespace = this.#enter(netns);
    const family = ipFamily(gateway);
    const route = newDefaultRoute({
      family,
      ifIndex: namespace.links.get(dev)?.index ?? 0,
      gateway,
      metric: metric ?? kernelMetric[family],
      onlink: false,
    });
    namespace.routes.push(Buffer.from(addRoute(route).data));
  }

  /** A namespace's default routes as `via GATEWAY dev NAME metric METRIC`, IPv4 first. */
  async defaultRoutes(netns: string): Promise<string[]> {
    const namespace = this.#enter(netns);
    const transport: NetlinkTransport = async (_netns, bytes) => this.#answer(namespace, bytes);
    const routes: KernelRoute[] = [];
    for (const family of [4, 6] as const) {
      routes.push(...(await listRoutes(transport, netns, family)));
    }
    return routes
      .filter(isDefault)
      .map(
        ({ hops: [hop], metric }) =>
          `via ${hop?.gateway} dev ${namespace.nameOf(hop?.ifIndex)} metric ${metric}`,
      );
  }

  /** Answers a datagram of requests. @throws NetnsError when there is no such namespace */
  readonly transport = async (netns: string, messages: Uint8Array): Promise<Uint8Array> => {
    this.datagrams++;
    return this.#answer(this.#enter(netns), messages);
  };

  #enter(netns: string): FakeNamespace {
    const namespace = this.#namespaces.get(netns);
    if (namespace !== undefined) return namespace;
    throw new NetnsError(`open ${netns}: No such file or directory`, errno.ENOENT);
  }

  #answer(namespace: FakeNamespace, messages: Uint8Array): Uint8Array {
    const requests = parseMessages(Buffer.from(messages));
    return Buffer.concat(
      requests.flatMap((request) => {
        const refusal = this.refuse(request);
        return refusal === undefined
          ? carryOut(namespace, request)
          : acknowledgement(request, refusal);
      }),
    );
  }
}

function carryOut(namespace: FakeNamespace, request: NetlinkMessage): Uint8Array[] {
  const { type, data } = request;
  const links = [...namespace.links];
  switch (type) {
    case MessageType.GETLINK: {
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
      const payloads = namespace.routes.filter((route) => route[0] === data[0]);
      return dumpAnswer(request, { type: MessageType.NEWROUTE, payloads });
    }
    case MessageType.NEWROUTE:
      return acknowledgement(request, addToRoutes(namespace, request));
    case MessageType.DELROUTE:
      return acknowledgement(request, removeFromRoutes(namespace, data));
    default:
      return acknowledgement(request, errno.EOPNOTSUPP);
  }
}

function addToRoutes(namespace: FakeNamespace, { flags, data }: NetlinkMessage): number {
  const exists = namespace.routes.some((route) => route.equals(data));
  if (exists && (flags & FlagsNew.EXCL) !== 0) return errno.EEXIST;
  namespace.routes.push(Buffer.from(data));
  return 0;
}

function removeFromRoutes(namespace: FakeNamespace, payload: Buffer): number {
  const index = namespace.routes.findIndex((route) => route.equals(payload));
  if (index < 0) return errno.ESRCH;
  namespace.routes = namespace.routes.toSpliced(index, 1);
  return 0;
}
