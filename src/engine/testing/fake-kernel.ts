import { parseMessages } from "netlink/dist/structs.js";
import { CniError } from "#cni/error.ts";
import { NetnsError } from "#engine/ports/host.ts";
import { formatCidr, ipFamily } from "#lib/ip.ts";
import {
  addRoute,
  decodeRoute,
  isDefault,
  isKeptRoute,
  type KernelRoute,
  kernelMetric,
  newDefaultRoute,
} from "#netlink/routes.ts";
import { FakeNamespace, type LinkState } from "./fake-namespace.ts";
import { acknowledgement } from "./rtnetlink-messages.ts";

const [enoent, einval] = [2, 22];

/**
 * As much of the kernel's rtnetlink as the engine uses: network namespaces by path, whose links,
 * addresses and routes can be listed, and whose routes can be added and removed.
 */
export class FakeKernel {
  readonly #namespaces = new Map<string, FakeNamespace>();
  readonly #hidden = new Set<string>();
  /** Paths of namespaces that cannot be opened at the moment. */
  readonly failToOpen = new Set<string>();
  /** How many datagrams it was sent. */
  datagrams = 0;
  /** The errno with which a request is refused; undefined = it is carried out. */
  refuse: (request: { readonly type: number }) => number | undefined = () => undefined;

  /** Adds a namespace with its loopback interface. */
  addNamespace(netns: string): void {
    this.#namespaces.set(netns, new FakeNamespace());
  }

  /** Makes another path of a namespace: a link, a mount, or another spelling. */
  linkNamespace(netns: string, path: string): void {
    this.#namespaces.set(path, this.#enter(netns));
  }

  isSameNamespace(netns: string, path: string): boolean {
    const namespace = this.#namespaces.get(netns);
    return netns === path || (namespace !== undefined && namespace === this.#namespaces.get(path));
  }

  removeNamespace(netns: string): void {
    this.#namespaces.delete(netns);
    this.#hidden.delete(netns);
  }

  /** Leaves a file where a namespace is mounted for others. */
  hideNamespace(netns: string): void {
    this.#namespaces.delete(netns);
    this.#hidden.add(netns);
  }

  hasNamespace(netns: string): boolean {
    return this.#namespaces.has(netns);
  }

  /** Adds an interface that is up, with routes to the networks of its addresses; no effect without the namespace. */
  addLink(netns: string, name: string, addresses: readonly string[] = []): void {
    this.#namespaces.get(netns)?.addLink(name, addresses);
  }

  /** Gives an interface more addresses, and routes to their networks; no effect without it. */
  addAddresses(netns: string, name: string, addresses: readonly string[]): void {
    this.#namespaces.get(netns)?.addAddresses(name, addresses);
  }

  setMac(netns: string, name: string, mac: string): void {
    this.#namespaces.get(netns)?.setMac(name, mac);
  }

  setAltNames(netns: string, name: string, altNames: readonly string[]): void {
    this.#namespaces.get(netns)?.setAltNames(name, altNames);
  }

  /** Removes an interface with its routes. */
  removeLink(netns: string, name: string): void {
    this.#namespaces.get(netns)?.removeLink(name);
  }

  link(netns: string, name: string): LinkState | undefined {
    return this.#namespaces.get(netns)?.links.get(name);
  }

  /** The names of a namespace's interfaces except `lo`, sorted. */
  linkNames(netns: string): string[] {
    const names = [...(this.#namespaces.get(netns)?.links.keys() ?? [])];
    return names.filter((name) => name !== "lo").sort();
  }

  /** Appends a default route. Equivalent to: `ip route append default [via GATEWAY] dev NAME [metric METRIC]`. */
  addDefaultRoute(
    netns: string,
    { dev, gateway, metric }: { dev: string; gateway?: string; metric?: number },
  ): void {
    const namespace = this.#enter(netns);
    const family = ipFamily(gateway ?? "0.0.0.0");
    const route = newDefaultRoute({
      family,
      ifIndex: namespace.links.get(dev)?.index ?? 0,
      gateway,
      metric: metric ?? kernelMetric[family],
      onlink: false,
    });
    namespace.addRoute(Buffer.from(addRoute(route).data));
  }

  /** A namespace's default routes as `via GATEWAY dev NAME metric METRIC`, IPv4 first. */
  defaultRoutes(netns: string): string[] {
    const namespace = this.#enter(netns);
    const routes = namespace.routes().flatMap((route) => decodeRoute(route) ?? []);
    return routes
      .filter(isDefault)
      .toSorted((a, b) => a.family - b.family)
      .map(
        ({ hops: [hop], metric }) =>
          `via ${hop?.gateway} dev ${namespace.nameOf(hop?.ifIndex)} metric ${metric}`,
      );
  }

  /** The routes that Plexus keeps to the cluster, as `DST via GATEWAY dev NAME`. */
  keptRoutes(netns: string): string[] {
    const namespace = this.#enter(netns);
    const kept = namespace.routes().flatMap((route) => decodeRoute(route) ?? []);
    const text = ({ dst, hops: [hop] }: KernelRoute): string =>
      `${formatCidr(dst)} via ${hop?.gateway} dev ${namespace.nameOf(hop?.ifIndex)}`;
    return kept.filter(isKeptRoute).map(text);
  }

  /** As {@link answer}, and counts the datagrams. @throws NetnsError */
  readonly transport = async (netns: string, messages: Uint8Array): Promise<Uint8Array> => {
    this.datagrams++;
    return this.answer(netns, messages);
  };

  /** Answers a datagram of requests. @throws NetnsError when there is no such namespace */
  answer(netns: string, messages: Uint8Array): Uint8Array {
    const namespace = this.#enter(netns);
    const requests = parseMessages(Buffer.from(messages));
    return Buffer.concat(
      requests.flatMap((request) => {
        const refusal = this.refuse(request);
        return refusal === undefined
          ? namespace.carryOut(request)
          : acknowledgement(request, refusal);
      }),
    );
  }

  #enter(netns: string): FakeNamespace {
    if (this.failToOpen.has(netns)) throw new CniError("IoFailure", "EMFILE");
    const namespace = this.#namespaces.get(netns);
    if (namespace !== undefined) return namespace;
    if (this.#hidden.has(netns)) throw new NetnsError(`${netns}: not a network namespace`, einval);
    throw new NetnsError(`open ${netns}: No such file or directory`, enoent);
  }
}
