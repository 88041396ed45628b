import type { AttachmentRecord, RecordKey } from "#engine/record/record.ts";
import { recordFileName } from "#lib/files/state-files.ts";

/** The pod of each recorded sandbox interface. Lists the records on first use. */
export class PodIndex {
  readonly #list: () => Promise<readonly AttachmentRecord[]>;
  readonly #pods = new Map<string, string>();
  #listed: Promise<void> | undefined;
  /** Added or removed during the list, which may have read the file before or after. */
  #changed: Set<string> | undefined;

  constructor(list: () => Promise<readonly AttachmentRecord[]>) {
    this.#list = list;
  }

  add(record: AttachmentRecord): void {
    this.#set(record, record.pod);
  }

  remove(key: RecordKey): void {
    this.#set(key, undefined);
  }

  /** @throws Error when the records cannot be listed; the next call lists them again */
  async has(pod: { readonly namespace: string; readonly name: string }): Promise<boolean> {
    this.#listed ??= this.#readAll();
    await this.#listed;
    const wanted = podText(pod);
    return [...this.#pods.values()].includes(wanted);
  }

  /** Before the list nothing is stored, because the list will contain the change. */
  #set(key: RecordKey, pod: AttachmentRecord["pod"]): void {
    if (this.#listed === undefined) return;
    const name = recordFileName(key);
    this.#changed?.add(name);
    if (pod === undefined) this.#pods.delete(name);
    else this.#pods.set(name, podText(pod));
  }

  async #readAll(): Promise<void> {
    const changed = new Set<string>();
    this.#changed = changed;
    try {
      for (const record of await this.#list()) {
        if (!changed.has(recordFileName(record))) this.#set(record, record.pod);
      }
    } catch (error) {
      this.#listed = undefined;
      this.#pods.clear();
      throw error;
    } finally {
      this.#changed = undefined;
    }
  }
}

function podText({ namespace, name }: { namespace: string; name: string }): string {
  return `${namespace}/${name}`;
}
