import type { AttachmentRecord, RecordKey } from "#engine/record/record.ts";
import { recordFileName } from "#lib/files/state-files.ts";

type Pod = Pick<NonNullable<AttachmentRecord["pod"]>, "namespace" | "name">;

/** The pod of each recorded sandbox interface. Lists the records on first use. */
export class PodIndex {
  readonly #list: () => Promise<readonly AttachmentRecord[]>;
  /** By record. During the list only what changed, as the list may have read the file before. */
  readonly #pods = new Map<string, string | undefined>();
  #listed: Promise<void> | undefined;
  #isListing = false;

  constructor(list: () => Promise<readonly AttachmentRecord[]>) {
    this.#list = list;
  }

  /** Before the list nothing is stored, because the list will contain the change. */
  add(record: AttachmentRecord): void {
    if (this.#listed !== undefined) this.#pods.set(recordFileName(record), podText(record.pod));
  }

  remove(key: RecordKey): void {
    if (this.#isListing) this.#pods.set(recordFileName(key), undefined);
    else this.#pods.delete(recordFileName(key));
  }

  /** @throws Error when the records cannot be listed; the next call lists them again */
  async has(pod: Pod): Promise<boolean> {
    this.#listed ??= this.#readAll();
    await this.#listed;
    return [...this.#pods.values()].includes(podText(pod));
  }

  async #readAll(): Promise<void> {
    this.#isListing = true;
    try {
      for (const record of await this.#list()) {
        const name = recordFileName(record);
        if (!this.#pods.has(name)) this.#pods.set(name, podText(record.pod));
      }
    } catch (error) {
      this.#listed = undefined;
      this.#pods.clear();
      throw error;
    } finally {
      this.#isListing = false;
    }
  }
}

function podText(pod: Pod | undefined): string | undefined {
  return pod && `${pod.namespace}/${pod.name}`;
}
