import { stat } from "node:fs/promises";
import type { AttachmentRecord } from "#engine/record/record.ts";
import type { DamagedRecord } from "#engine/record/record-store.ts";
import { FileRecordStore } from "#records/file-store.ts";

/** The records of a state directory; none when it does not exist, which it is not made to. */
export async function readRecords(
  stateDir: string,
): Promise<{ records: AttachmentRecord[]; damaged: DamagedRecord[] }> {
  const found = await stat(stateDir).catch(() => undefined);
  if (found === undefined) return { records: [], damaged: [] };
  return (await FileRecordStore.open(stateDir)).list();
}
