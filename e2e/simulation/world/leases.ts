import type { Attached } from "./attached.ts";
import type { Disk } from "./disk.ts";

const leasesDir = "/var/lib/cni/networks";
const lineBreak = "\r\n";
/** The last byte of the first and the last address that is given; the gateway has 1. */
const [firstHost, lastHost] = [2, 254];

/** Whose lease it is. */
export interface LeaseOwner {
  readonly network: string;
  readonly containerId: string;
  readonly ifName: string;
}

/**
 * host-local's files, one for each address: plugins/ipam/host-local/backend/disk. One step of a
 * process stands for the time in which host-local holds its directory's lock. Other processes do
 * not write the files, so they are read only after a restart, and after an error.
 */
export class Leases {
  /** By network, then by address. */
  readonly #networks = new Map<string, Map<string, Attached>>();
  readonly #disk: Disk;
  #isRead = false;

  constructor(disk: Disk) {
    this.#disk = disk;
  }

  /** The leases on disk. The owner of one whose content was lost, or cut, has no container ID. */
  all(): Attached[] {
    this.#read();
    return [...this.#networks.values()].flatMap((leases) => [...leases.values()]);
  }

  /** The addresses of an owner. */
  of({ network, containerId, ifName }: LeaseOwner): string[] {
    const found: string[] = [];
    for (const [address, lease] of this.#leasesOf(network))
      if (lease.containerId === containerId && lease.ifName === ifName) found.push(address);
    return found;
  }

  /**
   * Allocates a certain address, or the lowest free one of a network such as `10.1.0.0/16`.
   * @returns undefined when it is not free, or none is @throws Error when it cannot be written
   */
  allocate(owner: LeaseOwner, subnet: string, requested?: string): string | undefined {
    const leases = this.#leasesOf(owner.network);
    const address = requested ?? lowestFree(subnet, leases);
    if (address === undefined || leases.has(address)) return undefined;
    this.#change(() => {
      const disk = this.#disk;
      makeDirectory(disk, leasesDir);
      makeDirectory(disk, `${leasesDir}/${owner.network}`);
      const path = leasePath(owner.network, address);
      try {
        disk.writeFile(path, owner.containerId + lineBreak + owner.ifName, 0o600);
      } catch (error) {
        // host-local tries to remove what it could not write.
        if (disk.exists(path)) disk.unlink(path);
        throw error;
      }
      leases.set(address, lease(owner));
    });
    return address;
  }

  /**
   * Removes leases of a network. Unlike host-local it fails when the disk refuses: host-local
   * succeeds then and leaves the lease, which no caller can change.
   * @throws Error when one cannot be removed
   */
  release(network: string, isUnused: (lease: Attached) => boolean): string[] {
    const leases = this.#leasesOf(network);
    const released: string[] = [];
    for (const [address, lease] of leases) if (isUnused(lease)) released.push(address);
    for (const address of released) {
      this.#change(() => this.#disk.unlink(leasePath(network, address)));
      leases.delete(address);
    }
    return released;
  }

  /** Leases are read anew if the disk was changed in part. */
  #change(change: () => void): void {
    this.#isRead = false;
    change();
    this.#isRead = true;
  }

  #leasesOf(network: string): Map<string, Attached> {
    this.#read();
    const known = this.#networks.get(network);
    if (known !== undefined) return known;
    const leases = new Map<string, Attached>();
    this.#networks.set(network, leases);
    return leases;
  }

  #read(): void {
    if (this.#isRead) return;
    const disk = this.#disk;
    this.#networks.clear();
    for (const [network] of disk.exists(leasesDir) ? disk.list(leasesDir) : []) {
      const leases = new Map<string, Attached>();
      for (const [address] of disk.list(`${leasesDir}/${network}`)) {
        const content = disk.readFile(leasePath(network, address)).toString();
        // host-local ignores white space around it: half a line break may have been written.
        const [containerId = "", ifName = ""] = content.trim().split(lineBreak);
        // Without any of that, the ID may have been cut, and is no container's.
        const isWhole = content.includes("\r");
        leases.set(address, lease({ network, containerId: isWhole ? containerId : "", ifName }));
      }
      this.#networks.set(network, leases);
    }
    this.#isRead = true;
  }
}

function lease({ network, containerId, ifName }: LeaseOwner): Attached {
  return { network, containerId, ifName, plugin: "host-local", kind: "lease", netns: "" };
}

function makeDirectory(disk: Disk, path: string): void {
  if (!disk.exists(path)) disk.mkdir(path);
}

function leasePath(network: string, address: string): string {
  return `${leasesDir}/${network}/${address}`;
}

function lowestFree(subnet: string, leases: ReadonlyMap<string, unknown>): string | undefined {
  for (let host = firstHost; host <= lastHost; host++) {
    const address = hostAddress(subnet, host);
    if (!leases.has(address)) return address;
  }
  return undefined;
}

/** An address of a network whose own address ends with 0 or `::`. */
function hostAddress(subnet: string, host: number): string {
  const network = subnet.slice(0, subnet.indexOf("/"));
  return network.endsWith("::") ? network + host.toString(16) : network.slice(0, -1) + host;
}

/** The gateway that host-local reports if the configuration names none. */
export function gatewayOf(subnet: string): string {
  return hostAddress(subnet, 1);
}
