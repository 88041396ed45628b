import type { DamagedRecord, RecordReader } from "#engine/ports/records.ts";
import { isSame } from "#engine/record/record.ts";
import type { StoredRecord } from "#engine/record/teardown-plan.ts";
import type { RecordKey } from "#lib/files/state-files.ts";

/** The record of a sandbox interface, as loaded. */
export type Stored =
  | { readonly state: "usable"; readonly value: StoredRecord }
  | { readonly state: "absent" }
  | { readonly state: "damaged"; readonly record: DamagedRecord };

/**
 * Loads a record. A damaged one is returned, because DEL has to work without it.
 * @throws CniError if it could not be read, and now can
 */
export async function loadStored(records: RecordReader, key: RecordKey): Promise<Stored> {
  try {
    const value = await records.load(key);
    return value === undefined ? { state: "absent" } : { state: "usable", value };
  } catch (error) {
    const record = (await records.list()).damaged.find((each) => isSame(each, key));
    if (record === undefined) throw error;
    return { state: "damaged", record };
  }
}
