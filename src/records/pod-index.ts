import type { PodName } from "#engine/ports/cluster.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { parseStateFileName, type RecordKey, recordFileName } from "#lib/files/state-files.ts";

/** What {@link PodIndex} works with. */
interface PodIndexOptions {
  /** The wanted records, at least those of them that contain a text. */
  readonly list: (selection: {
    readonly containing?: string;
    readonly isWanted?: (key: RecordKey) => boolean;
  }) => Promise<{ readonly records: readonly AttachmentRecord[] }>;
  /** Whether the index pays: else each question reads only what it needs. */
  readonly isKept: boolean;
  /** Whether a record is still there: the shim removes records, too. */
  readonly isPresent: (key: RecordKey) => boolean;
}

/** The pod of each recorded sandbox interface. Lists the records on first use. */
export class PodIndex {
  readonly #options: PodIndexOptions;
  /** By record. During the list only what changed, as the list may have read the file before. */
  readonly #pods = new Map<string, string | undefined>();
  #listed: Promise<void> | undefined;
  #listing: Promise<void> | undefined;

  constructor(options: PodIndexOptions) {
    this.#options = options;
  }

  /** Before the list nothing is stored, because the list will contain the change. */
  add(record: AttachmentRecord): void {
    if (this.#listed !== undefined) this.#pods.set(recordFileName(record), podText(record.pod));
  }

  remove(key: RecordKey): void {
    if (this.#listing !== undefined) this.#pods.set(recordFileName(key), undefined);
    else this.#pods.delete(recordFileName(key));
  }

  /** Does not know what other processes have created since the list. @throws Error as {@link keysOf} */
  async has(pod: PodName): Promise<boolean> {
    return (await this.#knownOf(pod)).length > 0;
  }

  /** Also records of other processes. @throws Error if they cannot be listed: call it again */
  async keysOf(pod: PodName): Promise<RecordKey[]> {
    // plexus-standalone may have attached it.
    if (this.#options.isKept && this.#listed !== undefined) await this.#readUnknown();
    return this.#knownOf(pod);
  }

  async #knownOf(pod: PodName): Promise<RecordKey[]> {
    const { list, isKept } = this.#options;
    const text = podText(pod);
    if (!isKept) {
      const { records } = await list({ containing: JSON.stringify(pod.name) });
      return records.filter((record) => podText(record.pod) === text);
    }
    this.#listed ??= this.#readUnknown();
    await this.#listed;
    const names = [...this.#pods].filter(([, each]) => each === text).map(([name]) => name);
    const keys = names.map(parseStateFileName).filter((file) => file?.kind === "record");
    const present = keys.filter((key) => this.#options.isPresent(key));
    for (const key of keys) if (!present.includes(key)) this.remove(key);
    return present;
  }

  #readUnknown(): Promise<void> {
    this.#listing ??= this.#read().finally(() => {
      this.#listing = undefined;
      for (const [name, pod] of this.#pods) if (pod === undefined) this.#pods.delete(name);
    });
    return this.#listing;
  }

  async #read(): Promise<void> {
    const isWanted = (key: RecordKey): boolean => !this.#pods.has(recordFileName(key));
    try {
      const { records } = await this.#options.list({ isWanted });
      for (const record of records) {
        const name = recordFileName(record);
        if (!this.#pods.has(name)) this.#pods.set(name, podText(record.pod));
      }
    } catch (error) {
      this.#listed = undefined;
      this.#pods.clear();
      throw error;
    }
  }
}

function podText(pod: PodName): string;
function podText(pod: PodName | undefined): string | undefined;
function podText(pod: PodName | undefined): string | undefined {
  return pod && `${pod.namespace}/${pod.name}`;
}
