import { lstatSync } from "node:fs";

/** The mode bit of a record whose DEL has begun; the shim sets it (shim/replay.c). */
const begun = 0o100;

/** When the record's first DEL began, in ISO 8601; undefined without DEL or record. */
export function delBegunAt(path: string): string | undefined {
  const status = lstatSync(path, { throwIfNoEntry: false });
  if (status === undefined || (status.mode & begun) === 0) return undefined;
  return status.ctime.toISOString();
}
