import type { RecordKey } from "#engine/record/record.ts";
import { parseStateFileName } from "#lib/files/state-files.ts";

/** The sandbox interfaces with a record among these files, sorted by file name. */
export function sandboxInterfaces(names: readonly string[]): RecordKey[] {
  return names.toSorted().flatMap((name) => {
    const file = parseStateFileName(name);
    return file?.kind === "record" ? [{ containerId: file.containerId, ifName: file.ifName }] : [];
  });
}
