import { existsSync } from "node:fs";
import type { DamagedRecord } from "#engine/ports/records.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { FileRecordStore } from "#records/file-store.ts";

/** Reads the records of a state directory. Unlike the store it does not create the directory. */
export async function readRecords(
  stateDir: string,
): Promise<{ records: AttachmentRecord[]; damaged: DamagedRecord[] }> {
  if (!existsSync(stateDir)) return { records: [], damaged: [] };
  return (await FileRecordStore.open(stateDir)).list();
}
