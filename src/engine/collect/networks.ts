import type { NetConfList } from "#cni/conf/conf.ts";
import type { ValidAttachment } from "#cni/valid-attachments.ts";
import { recordedList } from "#engine/planned-attachment.ts";
import type { TeardownPlan } from "#engine/ports.ts";
import type { AttachmentRecord } from "#engine/record.ts";
import { plannedNetwork } from "#engine/teardown-plan.ts";

/** A network to collect in. */
export interface NetworkToCollect {
  readonly list: NetConfList;
  readonly displayName: string;
  readonly searchPath: readonly string[];
  /** Whether pods may have it as their default network, with or without a record of ours. */
  readonly isDefault: boolean;
}

/**
 * Networks with every attachment that they may still have, by CNI network name: that is what plugins keep
 * their state by. The configuration that is added last counts.
 */
export class NetworksToCollect {
  readonly #networks = new Map<string, NetworkToCollect>();
  readonly #valid = new Map<string, ValidAttachment[]>();
  #isComplete = true;

  add(network: NetworkToCollect): void {
    const { name } = network.list;
    const isDefault = network.isDefault || this.#networks.get(name)?.isDefault === true;
    this.#networks.set(name, { ...network, isDefault });
  }

  /** Adds the networks of a record, and its attachments to those that must stay. @throws CniError 7 */
  addRecord(record: AttachmentRecord, isValid: boolean): void {
    for (const attachment of record.attachments) {
      const { displayName, searchPath, isDefault, ifName } = attachment;
      this.add({ list: this.#listOf(attachment), displayName, searchPath, isDefault });
      if (isValid) this.#keep(String(attachment.conf.name), record.containerId, ifName);
    }
  }

  /** Adds what a teardown plan tells of attachments that must stay. */
  addPlan(containerId: string, plan: TeardownPlan): void {
    for (const { call } of plan) {
      const { name, ifName } = plannedNetwork(call);
      this.#keep(name, containerId, ifName);
    }
  }

  /** Something that must stay cannot be named: nothing may be collected. */
  markIncomplete(): void {
    this.#isComplete = false;
  }

  /**
   * The networks that can be collected in, with their complete lists; those that pods may have as
   * their default network only where the runtime says which containers there are.
   */
  complete(
    fromRuntime: readonly ValidAttachment[] | undefined,
  ): (NetworkToCollect & { valid: ValidAttachment[] })[] {
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

  #keep(network: string, containerID: string, ifname: string): void {
    const valid = this.#valid.get(network) ?? [];
    this.#valid.set(network, valid);
    if (!isIn(valid, { containerID, ifname })) valid.push({ containerID, ifname });
  }
}

function isIn(list: readonly ValidAttachment[], { containerID, ifname }: ValidAttachment): boolean {
  return list.some((each) => each.containerID === containerID && each.ifname === ifname);
}
