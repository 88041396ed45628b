import { FakeKernel } from "#engine/testing/fake-kernel.ts";
import type { LinkState } from "#engine/testing/fake-namespace.ts";
import { Locks } from "../node/locks.ts";
import type { Attached } from "./attached.ts";
import type { Disk } from "./disk.ts";
import { ground } from "./ground.ts";
import { Leases } from "./leases.ts";
import type { Random } from "./random.ts";

/** The state of the machine's kernel, which is lost when the machine restarts. */
export class Kernel {
  readonly bootId: string;
  readonly locks = new Locks();
  /** The machine reads them again after a restart. */
  readonly leases: Leases;
  readonly #rtnetlink = new FakeKernel();
  /** By namespace, then by interface. */
  readonly #links = new Map<string, Map<string, Attached>>();
  readonly #hostState = new Map<string, Attached>();

  constructor(random: Random, disk: Disk) {
    this.leases = new Leases(disk);
    const hex = (digits: number): string =>
      Math.floor(random.next() * 16 ** digits)
        .toString(16)
        .padStart(digits, "0");
    this.bootId = `${hex(8)}-${hex(4)}-4${hex(3)}-8${hex(3)}-${hex(12)}`;
  }

  /** The inodes of the files with a lock, as in /proc/locks. */
  lockedInodes(): number[] {
    return this.locks.inodes();
  }

  addNamespace(netns: string): void {
    if (!isCurrentAlive()) return;
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

  /**
   * Everything that delegates have made, except what they have removed. A lease whose owner was not
   * written is left out: only an administrator can remove it.
   */
  attached(): Attached[] {
    const all: Attached[] = [];
    for (const links of this.#links.values()) all.push(...links.values());
    const leases = this.leases.all().filter(({ containerId }) => containerId !== "");
    all.push(...this.#hostState.values(), ...leases);
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
