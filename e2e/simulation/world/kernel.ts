import { FakeKernel } from "#engine/testing/fake-kernel.ts";
import type { LinkState } from "#engine/testing/fake-namespace.ts";
import { Locks } from "../node/locks.ts";
import type { Attached } from "./attached.ts";
import type { Disk } from "./disk.ts";
import { type Boot, ground } from "./ground.ts";
import { Leases } from "./leases.ts";
import type { Random } from "./random.ts";

/** The state of the machine's kernel, which is lost when the machine restarts. */
export class Kernel implements Boot {
  readonly bootId: string;
  readonly clockFromUs: number;
  readonly containerBootId?: string;
  readonly locks = new Locks();
  /** The machine reads them again after a restart. */
  readonly leases: Leases;
  readonly #rtnetlink = new FakeKernel();
  /** By namespace, then by interface. */
  readonly #links = new Map<string, Map<string, Attached>>();
  readonly #owners = new Map<string, string>();
  readonly #hostState = new Map<string, Attached>();
  /** By device: for whom it is configured. */
  readonly #devices = new Map<string, Attached>();

  constructor(random: Random, disk: Disk, boot: Boot = { clockFromUs: 0 }) {
    this.leases = new Leases(disk);
    this.bootId = randomUuid(random);
    this.clockFromUs = boot.clockFromUs;
    if (boot.containerBootId !== undefined) this.containerBootId = boot.containerBootId;
  }

  /** The inodes of the files with a lock, as in /proc/locks. */
  lockedInodes(): number[] {
    return this.locks.inodes();
  }

  /** @param owner the container whose it is */
  addNamespace(netns: string, owner = ""): void {
    if (!isCurrentAlive()) return;
    this.#owners.set(netns, owner);
    this.#rtnetlink.addNamespace(netns);
    this.#links.set(netns, new Map());
  }

  /** Removes a namespace with its links. */
  removeNamespace(netns: string): void {
    if (!isCurrentAlive()) return;
    this.#rtnetlink.removeNamespace(netns);
    this.#links.delete(netns);
  }

  hasNamespace(netns: string): boolean {
    return this.#links.has(netns);
  }

  /** Which process a path of a namespace leads to; undefined if it is mounted there, or absent. */
  processAt(netns: string): string | undefined {
    return /^\/proc\/\d+\//.test(netns) ? this.ownerAt(netns) : undefined;
  }

  /** Which container's namespace is at a path; undefined if none is. */
  ownerAt(netns: string): string | undefined {
    return this.hasNamespace(netns) ? (this.#owners.get(netns) ?? "") : undefined;
  }

  /** Whether a sandbox's namespace is at its path, and not that of another one. */
  hasNamespaceOf({ id, netns }: { readonly id: string; readonly netns: string }): boolean {
    return this.ownerAt(netns) === id;
  }

  /** The names of a namespace's links. */
  linkNames(netns: string): string[] {
    return ["lo", ...(this.#links.get(netns)?.keys() ?? [])];
  }

  /** Answers rtnetlink requests as `DelegateHost.netlink` does. @throws NetnsError */
  netlink(netns: string, messages: Uint8Array): Uint8Array {
    return this.#rtnetlink.answer(netns, messages);
  }

  /**
   * Adds a link that a delegate made, with the kernel's MAC address or its own.
   * @returns false when the namespace is absent, or has the name
   */
  addLink(made: Attached, mac?: string): boolean {
    const links = this.#links.get(made.netns);
    if (links === undefined || links.has(made.ifName) || !isCurrentAlive()) return false;
    links.set(made.ifName, made);
    this.#rtnetlink.addLink(made.netns, made.ifName);
    if (mac !== undefined) this.#rtnetlink.setMac(made.netns, made.ifName, mac);
    return true;
  }

  /** The link as the kernel has it now. */
  link(netns: string, name: string): LinkState | undefined {
    return this.#rtnetlink.link(netns, name);
  }

  /** Gives a link addresses, and routes to their networks. */
  addAddresses(link: Attached, addresses: readonly string[]): void {
    if (isCurrentAlive()) this.#rtnetlink.addAddresses(link.netns, link.ifName, addresses);
  }

  addDefaultRoute(link: Attached, gateway: string): void {
    const route = { dev: link.ifName, gateway };
    if (isCurrentAlive()) this.#rtnetlink.addDefaultRoute(link.netns, route);
  }

  /** The default routes of a namespace: `via GATEWAY dev NAME metric METRIC`. */
  defaultRoutes(netns: string): string[] {
    return this.#rtnetlink.hasNamespace(netns) ? this.#rtnetlink.defaultRoutes(netns) : [];
  }

  /** The routes of a namespace that Plexus keeps to the cluster: `DST via GATEWAY dev NAME`. */
  keptRoutes(netns: string): string[] {
    return this.#rtnetlink.hasNamespace(netns) ? this.#rtnetlink.keptRoutes(netns) : [];
  }

  /** @returns whether there was one */
  removeLink(netns: string, name: string): boolean {
    if (!isCurrentAlive() || this.#links.get(netns)?.delete(name) !== true) return false;
    this.#rtnetlink.removeLink(netns, name);
    return true;
  }

  /** Adds or replaces what a delegate made outside of namespaces. */
  addHostState(made: Attached): void {
    if (isCurrentAlive()) this.#hostState.set(hostStateKey(made), made);
  }

  hasHostState(made: Attached): boolean {
    return this.#hostState.has(hostStateKey(made));
  }

  /** @returns whether there was any */
  removeHostState(made: Attached): boolean {
    return isCurrentAlive() && this.#hostState.delete(hostStateKey(made));
  }

  /** Whether the device is a link of a namespace. */
  isDeviceInside(device: string): boolean {
    const { netns = "", ifName = "" } = this.#devices.get(device) ?? {};
    return this.#links.get(netns)?.has(ifName) === true;
  }

  /** The devices of a container in the order of its interfaces' names. */
  devicesOf(containerId: string): string[] {
    const own = [...this.#devices].filter(([, made]) => made.containerId === containerId);
    return own.toSorted(([, a], [, b]) => (a.ifName < b.ifName ? -1 : 1)).map(([id]) => id);
  }

  /** Configures a device, whatever it had before. */
  configureDevice(device: string, made: Attached): void {
    if (isCurrentAlive()) this.#devices.set(device, made);
  }

  /** Undoes the configuration of a device, for whom it may be. */
  resetDevice(device: string): void {
    if (isCurrentAlive()) this.#devices.delete(device);
  }

  /**
   * Everything that delegates have made, except what they have removed. A lease whose owner was not
   * written is left out: only an administrator can remove it.
   */
  attached(): Attached[] {
    const all: Attached[] = [];
    for (const links of this.#links.values()) all.push(...links.values());
    const leases = this.leases.all().filter(({ containerId }) => containerId !== "");
    all.push(...this.#hostState.values(), ...this.#devices.values(), ...leases);
    return all;
  }

  attachedOf(containerId: string): Attached[] {
    return this.attached().filter((made) => made.containerId === containerId);
  }
}

function hostStateKey({ plugin, network, containerId, ifName }: Attached): string {
  return `${plugin} ${network} ${containerId} ${ifName}`;
}

/** Code of a killed process changes nothing more. */
function isCurrentAlive(): boolean {
  return ground().schedule.current.isAlive;
}

/** As the kernel makes boot IDs. */
export function randomUuid(random: Random): string {
  const hex = (digits: number): string =>
    Math.floor(random.next() * 16 ** digits)
      .toString(16)
      .padStart(digits, "0");
  return `${hex(8)}-${hex(4)}-4${hex(3)}-8${hex(3)}-${hex(12)}`;
}
