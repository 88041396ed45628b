import type { AttachmentRecord, RecordKey } from "#engine/record.ts";
import { recordFileName } from "#lib/files/state-files.ts";

/** The pod of each recorded sandbox interface. */
export class PodIndex {
  readonly #pods = new Map<string, string>();

  constructor(records: readonly AttachmentRecord[]) {
    for (const record of records) this.add(record);
  }

  add(record: AttachmentRecord): void {
    if (record.pod !== undefined) this.#pods.set(recordFileName(record), podText(record.pod));
  }

  remove(key: RecordKey): void {
    this.#pods.delete(recordFileName(key));
  }

  has(pod: { readonly namespace: string; readonly name: string }): boolean {
    const wanted = podText(pod);
    return [...this.#pods.values()].includes(wanted);
  }
}

function podText({ namespace, name }: { namespace: string; name: string }): string {
  return `${namespace}/${name}`;
}
