import type { RecordReader } from "#engine/ports/records.ts";
import { errorMessage } from "#lib/error-message.ts";
import { FileRecordStore } from "#records/file-store.ts";

/** Reads the records of a state directory. @throws Error when it cannot be read */
export async function readRecords(stateDir: string): ReturnType<RecordReader["list"]> {
  try {
    return await FileRecordStore.reader(stateDir).list();
  } catch (cause) {
    const message = `cannot read the attachment records: ${errorMessage(cause)}; --state-dir must name the directory of plexusd's records`;
    throw new Error(message, { cause });
  }
}
