import { lstatSync } from "node:fs";

/** The bit of a record's mode that says that a DEL of its sandbox has begun; the shim sets it (shim/planfile.c). */
const begun = 0o100;

/**
 * When the first DEL of a sandbox began that has not succeeded, as ISO 8601; undefined when there was none, or
 * there is no record at the path.
 */
export function delBegunAt(path: string): string | undefined {
  const status = lstatSync(path, { throwIfNoEntry: false });
  if (status === undefined || (status.mode & begun) === 0) return undefined;
  return status.ctime.toISOString();
}
