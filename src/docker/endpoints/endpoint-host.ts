import { DriverError } from "#docker/driver-error.ts";
import type { CniRuntime } from "#docker/netns/cni-runtime.ts";
import type { FoundAtPath, LinkState, NetworkNamespaces } from "#docker/netns/namespaces.ts";
import type { EndpointState } from "#docker/state.ts";
import { isJsonObject } from "#lib/json.ts";

/**
 * Plugins that remove an endpoint's rules on the host only when they find its interface with its addresses.
 * For one that is gone they get a substitute, which they remove as they would the interface.
 */
const masqueradingPlugins: ReadonlySet<string> = new Set(["bridge", "ptp"]);

/** The name of an endpoint's interface among the host's: of those that the kernel takes, 15 characters. */
export function hostIfName(endpointId: string): string {
  return `plx${endpointId.replaceAll(/[^A-Za-z0-9]/g, "").slice(0, 12)}`;
}

/** Attaches and detaches endpoints, and moves their interfaces between network namespaces. */
export class EndpointHost {
  readonly #runtime: CniRuntime;
  readonly #namespaces: NetworkNamespaces;
  readonly #bootId: string;

  constructor(parts: { runtime: CniRuntime; namespaces: NetworkNamespaces; bootId: string }) {
    this.#runtime = parts.runtime;
    this.#namespaces = parts.namespaces;
    this.#bootId = parts.bootId;
  }

  /** The staging namespace of an endpoint, which need not be there. */
  stagingNetns(endpointId: string): string {
    return this.#namespaces.pathOf(endpointId);
  }

  /** Attaches an endpoint in its staging namespace. @throws DriverError or Error; {@link detach} is then due */
  async stage(endpoint: EndpointState): Promise<LinkState> {
    await this.#namespaces.create(endpoint.id);
    await this.#runtime.add({ ...endpoint, containerId: endpoint.id });
    const links = await this.#namespaces.links(endpoint.netns);
    const others = links.filter((name) => name !== "lo" && name !== endpoint.ifName);
    if (others.length > 0) {
      throw new DriverError(
        `network ${endpoint.displayName} makes further interfaces (${others.join(", ")}), and only one can be moved into its container; use -o plexus.mode=direct (Docker Engine 28 or later)`,
      );
    }
    return this.#namespaces.state(endpoint.netns, endpoint.ifName);
  }

  /** Moves a staged interface to where the engine takes it from. May be repeated. */
  async handOver(endpoint: EndpointState): Promise<void> {
    if (!(await this.isOnHost(endpoint))) {
      await this.#namespaces.moveOut(endpoint.netns, endpoint.ifName, hostIfName(endpoint.id));
    }
    await this.#namespaces.remove(endpoint.id);
  }

  /** Attaches an endpoint inside a container. @throws Error; {@link detach} is then due */
  async attachInside(endpoint: EndpointState): Promise<LinkState> {
    await this.#runtime.add({ ...endpoint, containerId: endpoint.id });
    return this.#namespaces.state(endpoint.netns, endpoint.ifName);
  }

  /**
   * The first name of a prefix that no interface in a container has.
   * @throws DriverError when there is no such namespace yet
   */
  async freeIfName(sandboxKey: string, prefix: string): Promise<string> {
    if ((await this.#namespaces.find(sandboxKey)) !== "namespace") {
      throw new DriverError(
        "plexus.mode=direct: the container has no network namespace yet; that needs Docker Engine 28 or later, so create the network with -o plexus.mode=staged",
      );
    }
    const taken = await this.#namespaces.links(sandboxKey);
    for (let number = 0; ; number++) {
      if (!taken.includes(`${prefix}${number}`)) return `${prefix}${number}`;
    }
  }

  /** Whether the interface is among the host's, where the engine takes it from and puts it back. */
  async isOnHost(endpoint: Pick<EndpointState, "id">): Promise<boolean> {
    return (await this.#namespaces.links()).includes(hostIfName(endpoint.id));
  }

  /** What is at the path of a container's network namespace. */
  findSandbox(path: string): Promise<FoundAtPath> {
    return this.#namespaces.find(path);
  }

  /** Detaches an endpoint wherever its interface is by now. May be repeated. @throws CniError or Error */
  async detach(endpoint: EndpointState): Promise<void> {
    const netns = await this.#findInterface(endpoint);
    await this.#runtime.del({ ...endpoint, containerId: endpoint.id, netns });
    await this.#namespaces.remove(endpoint.id);
  }

  /** Removes the staging namespaces of which `isKnown` has no endpoint. */
  async removeNamespacesBut(isKnown: (endpointId: string) => boolean): Promise<void> {
    for (const name of await this.#namespaces.names()) {
      if (!isKnown(name)) await this.#namespaces.remove(name);
    }
  }

  /** CNI_NETNS for a DEL: where the interface is, else where a substitute is, else where it was to be, else "". */
  async #findInterface(endpoint: EndpointState): Promise<string> {
    if (endpoint.bootId !== this.#bootId) return "";
    if (endpoint.mode === "direct") {
      const found = await this.#namespaces.find(endpoint.netns);
      if (found === "namespace") return endpoint.netns;
    }
    const { id, ifName, link } = endpoint;
    const staging = this.#namespaces.pathOf(id);
    const isStaged = (await this.#namespaces.find(staging)) === "namespace";
    if (isStaged && (await this.#namespaces.links(staging)).includes(ifName)) return staging;
    const addresses = link?.addresses ?? [];
    if (await this.isOnHost(endpoint)) {
      await this.#namespaces.create(id);
      await this.#namespaces.moveIn(staging, { ownName: hostIfName(id), ifName, addresses });
      return staging;
    }
    if (addresses.length === 0 || !needsSubstitute(endpoint)) return isStaged ? staging : "";
    await this.#namespaces.create(id);
    await this.#namespaces.addSubstitute(staging, { ifName, addresses });
    return staging;
  }
}

function needsSubstitute({ conf }: EndpointState): boolean {
  const [list] = Array.isArray(conf.delegates) ? conf.delegates : [];
  const plugins = isJsonObject(list) && Array.isArray(list.plugins) ? list.plugins : [];
  return plugins.some(
    (plugin) =>
      isJsonObject(plugin) &&
      plugin.ipMasq === true &&
      masqueradingPlugins.has(String(plugin.type)),
  );
}
