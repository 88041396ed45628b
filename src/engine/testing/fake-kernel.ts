import { MessageType as ControlType } from "netlink/dist/constants.js";
import {
  formatAddress,
  formatLink,
  formatRoute,
  MessageType,
} from "netlink/dist/rt/gen_structs.js";
import {
  formatMessage,
  type NetlinkMessage,
  pad,
  parseMessages,
  putS32,
  putU32,
} from "netlink/dist/structs.js";
import { NetnsError } from "#engine/ports.ts";
import { parseCidr } from "#lib/ip.ts";
import { encodePayload } from "#netlink/codec.ts";
import { addressFamily, ipToBytes } from "#netlink/ip-bytes.ts";

/** NLM_F_MULTI: one part of an answer of several. */
const multi = 2;
const errno = { EEXIST: 17, ENOENT: 2, EOPNOTSUPP: 95, ESRCH: 3 } as const;

interface FakeLink {
  readonly index: number;
  readonly addresses: readonly string[];
}

/** One network namespace: its links with their addresses, and the routes that were added. */
class FakeNamespace {
  readonly links = new Map<string, FakeLink>();
  routes: Buffer[] = [];
  nextIndex = 2;
}

/** Network namespaces by path, which answer rtnetlink dumps of links, addresses and routes and keep routes. */
export class FakeKernel {
  readonly #namespaces = new Map<string, FakeNamespace>();
  /** When set, every request is refused with this errno. */
  refuses: number | undefined;

  /** A fresh namespace, with its loopback interface. */
  addNamespace(path: string): void {
    const namespace = new FakeNamespace();
    namespace.links.set("lo", { index: 1, addresses: ["127.0.0.1/8"] });
    this.#namespaces.set(path, namespace);
  }

  removeNamespace(path: string): void {
    this.#namespaces.delete(path);
  }

  /** Adds an interface that is up, with the networks of its addresses on it; a namespace that is gone stays so. */
  addLink(path: string, name: string, addresses: readonly string[] = []): void {
    const namespace = this.#namespaces.get(path);
    if (namespace === undefined) return;
    const index = namespace.nextIndex++;
    namespace.links.set(name, { index, addresses });
    namespace.routes.push(...addresses.map((address) => connectedRoute(index, address)));
  }

  removeLink(path: string, name: string): void {
    this.#namespaces.get(path)?.links.delete(name);
  }

  /** The names of a namespace's interfaces but for `lo`, sorted. */
  linkNames(path: string): string[] {
    const names = [...(this.#namespaces.get(path)?.links.keys() ?? [])];
    return names.filter((name) => name !== "lo").sort();
  }

  /** How many routes without a destination the namespace has. */
  defaultRoutes(path: string): number {
    return (this.#namespaces.get(path)?.routes ?? []).filter((route) => route[1] === 0).length;
  }

  /** @throws NetnsError when there is no such namespace */
  request(path: string, messages: Uint8Array): Uint8Array {
    const namespace = this.#namespaces.get(path);
    if (namespace === undefined) {
      throw new NetnsError(`open ${path}: No such file or directory`, errno.ENOENT);
    }
    const requests = parseMessages(Buffer.from(messages));
    return Buffer.concat(requests.flatMap((request) => this.#answer(namespace, request)));
  }

  #answer(namespace: FakeNamespace, request: NetlinkMessage): Uint8Array[] {
    if (this.refuses !== undefined) return acknowledgement(request, this.refuses);
    switch (request.type) {
      case MessageType.GETLINK:
        return dump(request, { type: MessageType.NEWLINK, payloads: linksOf(namespace) });
      case MessageType.GETADDR:
        return dump(request, { type: MessageType.NEWADDR, payloads: addressesOf(namespace) });
      case MessageType.GETROUTE: {
        const payloads = namespace.routes.filter((route) => route[0] === request.data[0]);
        return dump(request, { type: MessageType.NEWROUTE, payloads });
      }
      case MessageType.NEWROUTE:
        namespace.routes.push(Buffer.from(request.data));
        return acknowledgement(request, 0);
      case MessageType.DELROUTE:
        return acknowledgement(request, removeRoute(namespace, request.data));
      default:
        return acknowledgement(request, errno.EOPNOTSUPP);
    }
  }
}

function linksOf(namespace: FakeNamespace): Uint8Array[] {
  return [...namespace.links].map(([name, { index }]) =>
    encodePayload(formatLink({ index, flags: { up: true } }), [
      { type: 3, data: Buffer.from(`${name}\0`) },
      { type: 1, data: Buffer.from([2, 0, 0, 0, 0, index]) },
      { type: 4, data: putU32(1500) },
    ]),
  );
}

function addressesOf(namespace: FakeNamespace): Uint8Array[] {
  return [...namespace.links.values()].flatMap(({ index, addresses }) =>
    addresses.map((text) => {
      const { address, prefix, family } = parseCidr(text);
      const header = formatAddress({ family: addressFamily[family], prefixlen: prefix, index });
      return encodePayload(header, [{ type: 1, data: ipToBytes(address) }]);
    }),
  );
}

function connectedRoute(index: number, text: string): Buffer {
  const { address, prefix, family } = parseCidr(text);
  const header = formatRoute({
    family: addressFamily[family],
    dstLen: prefix,
    table: 254,
    protocol: 2,
    scope: 253,
    type: 1,
  });
  const attributes = [
    { type: 1, data: ipToBytes(address) },
    { type: 4, data: putU32(index) },
  ];
  return Buffer.from(encodePayload(header, attributes));
}

function removeRoute(namespace: FakeNamespace, payload: Buffer): number {
  const kept = namespace.routes.filter((route) => !route.equals(payload));
  if (kept.length === namespace.routes.length) return errno.ESRCH;
  namespace.routes = kept;
  return 0;
}

function dump(
  { seq }: NetlinkMessage,
  answer: { type: number; payloads: readonly Uint8Array[] },
): Uint8Array[] {
  const part = { flags: multi, seq, port: 0 };
  const end = pad(formatMessage({ ...part, type: ControlType.DONE, data: putS32(0) }));
  return [
    ...answer.payloads.flatMap((data) => pad(formatMessage({ ...part, type: answer.type, data }))),
    ...end,
  ];
}

function acknowledgement({ type, flags, seq, data }: NetlinkMessage, code: number): Uint8Array[] {
  const [header = Buffer.alloc(16)] = formatMessage({ type, flags, seq, port: 0, data });
  const payload = Buffer.concat([putS32(-code), header]);
  return formatMessage({ type: ControlType.ERROR, flags: 0, seq, port: 0, data: payload });
}
