import type { NetConfList } from "#cni/conf/conf.ts";
import type { ValidAttachment } from "#cni/valid-attachments.ts";
import { recordedList } from "#engine/plan/planned-attachment.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";

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

/** The networks for GC by CNI name, with valid attachments; the last added configuration counts. */
export class NetworksToCollect {
  readonly #networks = new Map<string, NetworkToCollect>();
  readonly #valid = new Map<string, ValidAttachment[]>();
  #isComplete = true;

  add(network: NetworkToCollect): void {
    const { name } = network.list;
    const isDefault = network.isDefault || this.#networks.get(name)?.isDefault === true;
    this.#networks.set(name, { ...network, isDefault });
  }

  /** Adds the networks of a record and, if it is valid, its attachments. @throws CniError 7 */
  addRecord(record: AttachmentRecord, isValid: boolean): void {
    for (const attachment of record.attachments) {
      const { displayName, searchPath, isDefault, ifName } = attachment;
      this.add({ list: this.#listOf(attachment), displayName, searchPath, isDefault });
      if (isValid) this.keep(String(attachment.conf.name), record.containerId, ifName);
    }
  }

  /** Prevents every collection: a valid attachment is unknown. */
  markIncomplete(): void {
    this.#isComplete = false;
  }

  /** The networks that can collect; default networks only if the runtime listed its containers. */
  complete(fromRuntime: readonly ValidAttachment[] | undefined): CompleteNetwork[] {
    if (!this.#isComplete) return [];
    return [...this.#networks.values()]
      .filter(({ isDefault }) => !isDefault || fromRuntime !== undefined)
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
