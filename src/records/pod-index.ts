import type { RecordKey } from "#engine/ports.ts";
import type { AttachmentRecord } from "#engine/record.ts";

/** Which pod each recorded sandbox interface is of. */
export class PodIndex {
  readonly #pods = new Map<string, string>();

  constructor(records: readonly AttachmentRecord[]) {
    for (const record of records) this.add(record);
  }

  add(record: AttachmentRecord): void {
    if (record.pod !== undefined) this.#pods.set(keyText(record), podText(record.pod));
  }

  remove(key: RecordKey): void {
    this.#pods.delete(keyText(key));
  }

  has(pod: { readonly namespace: string; readonly name: string }): boolean {
    const wanted = podText(pod);
    return [...this.#pods.values()].includes(wanted);
  }
}

function keyText({ containerId, ifName }: RecordKey): string {
  return `${containerId}@${ifName}`;
}

function podText({ namespace, name }: { namespace: string; name: string }): string {
  return `${namespace}/${name}`;
}
