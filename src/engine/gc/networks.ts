import type { NetConfList } from "#cni/conf/conf.ts";
import type { ValidAttachment } from "#cni/valid-attachments.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { recordedList } from "#engine/record/recorded-conf.ts";

interface NetworkToCollect {
  readonly list: NetConfList;
  readonly displayName: string;
  readonly searchPath: readonly string[];
  /** Whether pods may have it as their default network, recorded or not. */
  readonly isDefault: boolean;
}

/** A network with its complete list of valid attachments. */
export interface CompleteNetwork extends NetworkToCollect {
  readonly valid: readonly ValidAttachment[];
}

/**
 * The networks for the GC of a list, by CNI name, with valid attachments of all lists; the last added
 * configuration counts. Networks that only other lists have are left to the GC of those, which may
 * be disabled.
 */
export class NetworksToCollect {
  readonly #listName: string;
  readonly #networks = new Map<string, NetworkToCollect>();
  readonly #valid = new Map<string, ValidAttachment[]>();
  /**
   * Default networks that this list's GC leaves alone unless they have its name. Pods that are older
   * than Plexus may have them, and the runtime lists those under the name of their network.
   */
  readonly #othersDefaults = new Set<string>();
  #isComplete = true;

  constructor(listName: string) {
    this.#listName = listName;
  }

  add(network: NetworkToCollect): void {
    const { name } = network.list;
    const isDefault = network.isDefault || this.#networks.get(name)?.isDefault === true;
    this.#networks.set(name, { ...network, isDefault });
  }

  /** The names of all networks except the list's own, whose users the runtime lists. */
  get othersNames(): string[] {
    return [...this.#networks.keys()].filter((name) => name !== this.#listName);
  }

  /** Adds the networks of a record and, if it is valid, its attachments. @throws CniError 7 */
  addRecord(record: AttachmentRecord, isValid: boolean): void {
    const isOwn = record.listName === this.#listName;
    for (const attachment of record.attachments) {
      const { displayName, searchPath, isDefault, ifName } = attachment;
      const name = String(attachment.conf.name);
      if (isOwn) this.add({ list: this.#listOf(attachment), displayName, searchPath, isDefault });
      else if (isDefault) this.leaveToItsList(name);
      if (isValid) this.keep(name, record.containerId, ifName);
    }
  }

  /** Adds the attachments of a record of another engine, which collects nothing. */
  keepRecord({ attachments, containerId }: AttachmentRecord): void {
    for (const { conf, ifName } of attachments) this.keep(String(conf.name), containerId, ifName);
  }

  /** Leaves a default network to the GC of the list with its name. */
  leaveToItsList(network: string): void {
    this.#othersDefaults.add(network);
  }

  /** Prevents every collection: a valid attachment is unknown. */
  markIncomplete(): void {
    this.#isComplete = false;
  }

  /** The networks that can collect: default ones only with the runtime's list, none left to others. */
  complete(fromRuntime: readonly ValidAttachment[] | undefined): CompleteNetwork[] {
    if (!this.#isComplete) return [];
    return [...this.#networks.values()]
      .filter(({ isDefault, list: { name } }) => {
        if (isDefault && fromRuntime === undefined) return false;
        return (isDefault && name === this.#listName) || !this.#othersDefaults.has(name);
      })
      .map((network) => {
        const own = this.#valid.get(network.list.name) ?? [];
        const others = network.isDefault ? (fromRuntime ?? []) : [];
        return { ...network, valid: [...own, ...others.filter((each) => !isIn(own, each))] };
      });
  }

  #listOf(attachment: AttachmentRecord["attachments"][number]): NetConfList {
    try {
      return recordedList(attachment);
    } catch (error) {
      this.markIncomplete();
      throw error;
    }
  }

  /** Adds a valid attachment. */
  keep(network: string, containerID: string, ifname: string): void {
    const valid = this.#valid.get(network) ?? [];
    this.#valid.set(network, valid);
    if (!isIn(valid, { containerID, ifname })) valid.push({ containerID, ifname });
  }
}

function isIn(list: readonly ValidAttachment[], { containerID, ifname }: ValidAttachment): boolean {
  return list.some((each) => each.containerID === containerID && each.ifname === ifname);
}
