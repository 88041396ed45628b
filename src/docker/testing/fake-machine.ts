import { dirname } from "node:path";
import { CniError } from "#cni/error.ts";
import type { CniCall, CniRuntime } from "#docker/netns/cni-runtime.ts";
import type {
  FoundAtPath,
  LinkAddresses,
  LinksOfProcesses,
  NetworkNamespaces,
} from "#docker/netns/ip-command.ts";
import type { LinkState } from "#docker/state.ts";

/** The path of this process's namespace. */
const own = "/proc/self/ns/net";

/** The interface that an ADD makes by default. */
const attached: LinkState = {
  mac: "aa:bb:cc:00:00:01",
  kind: "veth",
  addresses: ["10.1.0.5/24"],
  routes: [
    { dst: "10.1.0.0/24", metric: 0, isFromAddress: true },
    { dst: "0.0.0.0/0", gateway: "10.1.0.1", metric: 0, isFromAddress: false },
  ],
};

/** In-memory namespaces and plugins, with a log of calls. */
export class FakeMachine implements NetworkNamespaces, CniRuntime {
  /** By path: the interfaces by name. */
  readonly namespaces = new Map<string, Map<string, LinkState>>([[own, new Map()]]);
  /** Paths of files that are not namespaces. */
  readonly plainFiles = new Set<string>();
  /** The interfaces of running containers, by the path at which dockerd mounted their namespace. */
  readonly #containers = new Map<string, Map<string, LinkState>>();
  /** Whether this process sees those of containers. */
  seesProcesses = true;
  /** Directories that this process cannot see. */
  readonly hiddenDirectories = new Set<string>();
  /** In order: `ADD id in path as eth0`. */
  readonly calls: string[] = [];
  /** The calls with all their values. */
  readonly made: CniCall[] = [];
  /** Changes of the interface that the next ADD makes. */
  next: Partial<LinkState> = {};
  /** Additional interfaces of an ADD. */
  further: readonly string[] = [];
  /** Messages of the failures of the next ADDs and DELs; undefined for one that succeeds. */
  readonly addFailures: string[] = [];
  readonly delFailures: (string | undefined)[] = [];
  /** The container that has each requested address. */
  readonly #leases = new Map<string, string>();
  /** What happens while the plugins of an ADD run. */
  duringAdd: () => Promise<void> = async () => {};

  /** The interfaces of this process's own namespace. */
  get ownLinks(): string[] {
    return [...this.#links(own).keys()];
  }

  async add(call: CniCall): Promise<void> {
    this.#record("ADD", call);
    await this.duringAdd();
    const failure = this.addFailures.shift() ?? this.#lease(call);
    if (failure !== undefined) throw new CniError(7, failure);
    const links = this.#links(call.netns);
    const mac = `aa:bb:cc:00:00:0${call.containerId.slice(-1)}`;
    links.set(call.ifName, { ...attached, mac, ...this.next });
    for (const name of this.further) links.set(name, attached);
  }

  async del(call: CniCall): Promise<void> {
    this.#record("DEL", call);
    const failure = this.delFailures.shift();
    if (failure !== undefined) throw new CniError(999, failure);
    for (const [ip, id] of this.#leases) if (id === call.containerId) this.#leases.delete(ip);
    this.namespaces.get(call.netns)?.delete(call.ifName);
  }

  /** As host-local does with requested addresses. */
  #lease({ conf, containerId }: CniCall): string | undefined {
    const { ips = [] } = conf.runtimeConfig as { ips?: string[] };
    for (const ip of ips) {
      const owner = this.#leases.get(ip) ?? containerId;
      if (owner !== containerId) return `requested IP address ${ip} is not available`;
      this.#leases.set(ip, containerId);
    }
    return undefined;
  }

  pathOf(name: string): string {
    return `/run/netns/plexus-docker-${name}`;
  }

  async find(path: string): Promise<FoundAtPath> {
    if (this.hiddenDirectories.has(dirname(path))) return "hidden";
    if (this.namespaces.has(path)) return "namespace";
    return this.plainFiles.has(path) ? "other" : "nothing";
  }

  async names(): Promise<string[]> {
    const prefix = this.pathOf("");
    const all = [...this.namespaces.keys(), ...this.plainFiles];
    const paths = all.filter((path) => path.startsWith(prefix));
    return paths.map((path) => path.slice(prefix.length));
  }

  async create(name: string): Promise<void> {
    this.plainFiles.delete(this.pathOf(name));
    if (!this.namespaces.has(this.pathOf(name))) this.namespaces.set(this.pathOf(name), new Map());
  }

  async remove(name: string): Promise<void> {
    this.namespaces.delete(this.pathOf(name));
    this.plainFiles.delete(this.pathOf(name));
  }

  /** Unmounts a namespace, which destroys its interfaces and leaves its file. */
  loseMount(path: string): void {
    this.namespaces.delete(path);
    this.plainFiles.add(path);
  }

  async links(path: string = own): Promise<string[]> {
    return ["lo", ...this.#links(path).keys()];
  }

  async state(path: string, ifName: string): Promise<LinkState> {
    return this.#take(path, ifName);
  }

  async moveOut(from: string, ifName: string, hostIfName: string): Promise<void> {
    const link = this.#take(from, ifName);
    this.#links(from).delete(ifName);
    this.#links(own).set(hostIfName, { ...link, addresses: [], routes: [] });
  }

  async moveIn(
    into: string,
    { hostIfName, ifName, addresses }: LinkAddresses & { readonly hostIfName: string },
  ): Promise<void> {
    const link = this.#take(own, hostIfName);
    this.#links(own).delete(hostIfName);
    this.#links(into).set(ifName, { ...link, addresses });
  }

  async addSubstitute(into: string, { ifName, addresses }: LinkAddresses): Promise<void> {
    this.calls.push(`substitute ${ifName} with ${addresses.join(" ")}`);
    this.#links(into).set(ifName, { ...attached, addresses });
  }

  async hasProcess(path: string): Promise<boolean> {
    return this.seesProcesses && this.#containers.has(path);
  }

  async linksOfProcesses(): Promise<LinksOfProcesses> {
    const containers = this.seesProcesses ? [...this.#containers.values()] : [];
    const links = containers.flatMap((each) =>
      [...each].map(([ifName, link]) => ({ ...link, ifName })),
    );
    return { links, isComplete: this.seesProcesses };
  }

  /** As dockerd does at its next start with the containers of one that was killed. */
  killContainer(sandboxKey: string): void {
    this.#containers.delete(sandboxKey);
    this.loseMount(sandboxKey);
  }

  /** As dockerd does at a container's start: moves its interfaces from the host into its namespace. */
  startContainer(sandboxKey: string, ...srcNames: string[]): void {
    const links = this.namespaces.get(sandboxKey) ?? new Map<string, LinkState>();
    this.namespaces.set(sandboxKey, links);
    this.#containers.set(sandboxKey, links);
    for (const name of srcNames) {
      links.set(name, this.#take(own, name));
      this.#links(own).delete(name);
    }
  }

  /** As dockerd does after Leave. */
  stopContainer(sandboxKey: string, ...srcNames: string[]): void {
    for (const name of srcNames) this.#links(own).set(name, this.#take(sandboxKey, name));
    this.namespaces.delete(sandboxKey);
    this.#containers.delete(sandboxKey);
  }

  #record(command: string, call: CniCall): void {
    const { containerId, netns, ifName } = call;
    const has = this.namespaces.get(netns)?.get(ifName);
    const addresses =
      command === "DEL" && has !== undefined ? ` with ${has.addresses.join(" ")}` : "";
    this.calls.push(`${command} ${containerId} in ${netns || "none"} as ${ifName}${addresses}`);
    this.made.push(call);
  }

  #links(path: string): Map<string, LinkState> {
    const links = this.namespaces.get(path);
    if (links === undefined) throw new Error(`there is no namespace ${path}`);
    return links;
  }

  #take(path: string, ifName: string): LinkState {
    const link = this.#links(path).get(ifName);
    if (link === undefined) throw new Error(`there is no interface ${ifName} in ${path}`);
    return link;
  }
}
