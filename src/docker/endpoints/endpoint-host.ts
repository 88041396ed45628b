import type { CniRuntime } from "#docker/netns/cni-runtime.ts";
import type { NetworkNamespaces } from "#docker/netns/ip-command.ts";
import type { NamedLink } from "#docker/netns/ip-output.ts";
import type { EndpointState, LinkState } from "#docker/state.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import { objectOf, objectsOf } from "#lib/json.ts";

/** Plugins that need the interface, or a substitute, to remove an endpoint's rules on the host. */
const masqueradingPlugins: ReadonlySet<string> = new Set(["bridge", "ptp"]);

/** The name of an endpoint's interface on the host; the kernel allows 15 characters. */
export function hostIfName(endpointId: string): string {
  return `plx${endpointId.replaceAll(/[^A-Za-z0-9]/g, "").slice(0, 12)}`;
}

/** Attaches and detaches endpoints, and moves their interfaces between network namespaces. */
export class EndpointHost {
  readonly #runtime: CniRuntime;
  readonly namespaces: NetworkNamespaces;
  readonly #bootId: string;

  constructor(parts: { runtime: CniRuntime; namespaces: NetworkNamespaces; bootId: string }) {
    this.#runtime = parts.runtime;
    this.namespaces = parts.namespaces;
    this.#bootId = parts.bootId;
  }

  /** Attaches an endpoint in its staging namespace. @throws Error; then {@link detach} it */
  async stage(endpoint: EndpointState): Promise<LinkState> {
    await this.namespaces.create(endpoint.id);
    await this.#runtime.add({ ...endpoint, containerId: endpoint.id });
    const links = await this.namespaces.links(endpoint.netns);
    const others = links.filter((name) => name !== "lo" && name !== endpoint.ifName);
    if (others.length > 0) {
      throw new Error(
        `network ${endpoint.displayName} makes further interfaces (${others.join(", ")}), but only ` +
          "one can move into its container; use -o plexus.mode=direct (Docker Engine 28 or later)",
      );
    }
    return this.namespaces.state(endpoint.netns, endpoint.ifName);
  }

  /** Moves a staged interface to the host, where dockerd takes it from. Idempotent. */
  async handOver(endpoint: EndpointState): Promise<void> {
    if (!(await this.isOnHost(endpoint))) {
      await this.namespaces.moveOut(endpoint.netns, endpoint.ifName, hostIfName(endpoint.id));
    }
    await this.namespaces.remove(endpoint.id);
  }

  /** Attaches an endpoint inside its container. @throws Error; then {@link detach} it */
  async attachInside(endpoint: EndpointState): Promise<LinkState> {
    await this.#runtime.add({ ...endpoint, containerId: endpoint.id });
    return this.namespaces.state(endpoint.netns, endpoint.ifName);
  }

  /** The first unused interface name with a prefix. @throws Error without a namespace */
  async freeIfName(sandboxKey: string, prefix: string): Promise<string> {
    if ((await this.namespaces.find(sandboxKey)) !== "namespace") {
      throw new Error(
        "plexus.mode=direct: the container has no network namespace yet; this mode needs Docker " +
          "Engine 28 or later: create the network with -o plexus.mode=staged",
      );
    }
    const taken = await this.namespaces.links(sandboxKey);
    for (let number = 0; ; number++) {
      if (!taken.includes(`${prefix}${number}`)) return `${prefix}${number}`;
    }
  }

  /** Whether the interface is on the host: dockerd has not taken it yet, or has put it back. */
  async isOnHost(endpoint: Pick<EndpointState, "id">): Promise<boolean> {
    return (await this.namespaces.links()).includes(hostIfName(endpoint.id));
  }

  /**
   * Whether a process has the interface in its namespace, mounted or not. `unknown` when none is
   * seen, and this process cannot examine all of them.
   */
  isInUse(endpoint: EndpointState): Promise<boolean | "unknown"> {
    return this.#hasProcess((link) => isInterfaceOf(endpoint, link));
  }

  /** As {@link isInUse}, of what only a record knows. A damaged one knows no interface. */
  isRecordInUse(record: RecordKey | AttachmentRecord): Promise<boolean | "unknown"> {
    const attachments = "attachments" in record ? record.attachments : [];
    const interfaces = attachments.flatMap(({ result }) => result?.interfaces ?? []);
    const macs = objectsOf(interfaces).map(({ mac }) => mac);
    return this.#hasProcess(({ mac }) => macs.includes(mac));
  }

  async #hasProcess(isOwn: (link: NamedLink) => boolean): Promise<boolean | "unknown"> {
    const { links, isComplete } = await this.namespaces.linksOfProcesses();
    if (links.some(isOwn)) return true;
    return isComplete ? false : "unknown";
  }

  /** Whether the interface is in the endpoint's staging namespace. */
  async isStaged({ id, ifName }: EndpointState): Promise<boolean> {
    const staging = this.namespaces.pathOf(id);
    if ((await this.namespaces.find(staging)) !== "namespace") return false;
    return (await this.namespaces.links(staging)).includes(ifName);
  }

  /** Detaches an endpoint, wherever its interface is. Idempotent. @throws CniError or Error */
  async detach(endpoint: EndpointState): Promise<void> {
    const netns = await this.#netnsForDel(endpoint);
    await this.#runtime.del({ ...endpoint, containerId: endpoint.id, netns });
    await this.namespaces.remove(endpoint.id);
  }

  async removeNamespacesExcept(isKnown: (endpointId: string) => boolean): Promise<void> {
    for (const name of await this.namespaces.names()) {
      if (!isKnown(name)) await this.namespaces.remove(name);
    }
  }

  /** CNI_NETNS for a DEL: the namespace with the interface or a substitute, else staging or "". */
  async #netnsForDel(endpoint: EndpointState): Promise<string> {
    if (endpoint.bootId !== this.#bootId) return "";
    const { id, ifName, mode, netns } = endpoint;
    if (mode === "direct" && (await this.namespaces.find(netns)) === "namespace") return netns;
    const staging = this.namespaces.pathOf(id);
    if (await this.isStaged(endpoint)) return staging;
    const link = { ifName, addresses: endpoint.link?.addresses ?? [] };
    if (await this.isOnHost(endpoint)) {
      await this.namespaces.create(id);
      await this.namespaces.moveIn(staging, { ...link, hostIfName: hostIfName(id) });
      return staging;
    }
    if (link.addresses.length === 0 || !needsSubstitute(endpoint)) {
      return (await this.namespaces.find(staging)) === "namespace" ? staging : "";
    }
    await this.namespaces.create(id);
    await this.namespaces.addSubstitute(staging, link);
    return staging;
  }
}

/** Compares what stays when dockerd renames an interface. All ipvlan interfaces of a device have its MAC. */
function isInterfaceOf({ link, requested }: EndpointState, found: NamedLink): boolean {
  const macs = [link?.mac, requested.MacAddress?.toLowerCase() ?? link?.mac];
  const isSameMac = macs.includes(found.mac);
  if (link?.kind !== "ipvlan") return isSameMac;
  const ips = new Set(link.addresses.map(withoutPrefix));
  return isSameMac && found.addresses.some((address) => ips.has(withoutPrefix(address)));
}

function withoutPrefix(address: string): string | undefined {
  return address.split("/")[0];
}

function needsSubstitute({ conf }: EndpointState): boolean {
  const [list] = Array.isArray(conf.delegates) ? conf.delegates : [];
  return objectsOf(objectOf(list).plugins).some(
    ({ ipMasq, type }) => ipMasq === true && masqueradingPlugins.has(String(type)),
  );
}
