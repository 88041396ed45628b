import type { RecordKey } from "#engine/record/record.ts";
import { parseStateFileName, recordFileName } from "#lib/files/state-files.ts";

const recordKinds: ReadonlySet<string> = new Set(["record", "old-record", "old-latest-record"]);

/**
 * The sandbox interfaces that have a record among these files, sorted, and whether they do: of an earlier
 * release there may be a plan alone.
 */
export function sandboxInterfaces(names: readonly string[]): [RecordKey, boolean][] {
  const found = new Map<string, [RecordKey, boolean]>();
  for (const name of names) {
    const file = parseStateFileName(name);
    if (file === undefined || !("ifName" in file)) continue;
    if (file.kind === "damaged" || file.kind === "tombstone") continue;
    const { containerId, ifName } = file;
    const isRecord = recordKinds.has(file.kind);
    const hasRecord = isRecord || found.get(recordFileName(file))?.[1] === true;
    found.set(recordFileName(file), [{ containerId, ifName }, hasRecord]);
  }
  return [...found].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, each]) => each);
}
