import type { AttachmentRecord, RecordKey } from "#engine/record/record.ts";
import { recordFileName } from "#lib/files/state-files.ts";

type Pod = Pick<NonNullable<AttachmentRecord["pod"]>, "namespace" | "name">;

interface PodIndexOptions {
  /** The records, at least those that contain a text. */
  readonly list: (containing?: string) => Promise<readonly AttachmentRecord[]>;
  /** Whether the index pays: else each question reads only what it needs. */
  readonly isKept: boolean;
}

/** The pod of each recorded sandbox interface. Lists the records on first use. */
export class PodIndex {
  readonly #options: PodIndexOptions;
  /** By record. During the list only what changed, as the list may have read the file before. */
  readonly #pods = new Map<string, string | undefined>();
  #listed: Promise<void> | undefined;
  #isListing = false;

  constructor(options: PodIndexOptions) {
    this.#options = options;
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
    const { list, isKept } = this.#options;
    const text = podText(pod);
    if (!isKept) {
      const records = await list(JSON.stringify(pod.name));
      return records.some((record) => podText(record.pod) === text);
    }
    this.#listed ??= this.#readAll();
    await this.#listed;
    return [...this.#pods.values()].includes(text);
  }

  async #readAll(): Promise<void> {
    this.#isListing = true;
    try {
      for (const record of await this.#options.list()) {
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
