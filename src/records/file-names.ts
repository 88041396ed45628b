import type { RecordKey } from "#engine/record.ts";

/** The suffix of attachment records. */
export const recordSuffix = ".json";
/** The suffix of teardown plans; the shim finds them by the same names (shim/plan.c). */
export const planSuffix = ".teardown";
/** Appended to the name of a file that was found damaged and put aside. */
export const damagedSuffix = ".damaged";

/** `containerID@ifName`: the name of a record or plan without its suffix. */
export function fileStem({ containerId, ifName }: RecordKey): string {
  return `${containerId}@${ifName}`;
}

/** The sandbox interface to which a record or plan belongs; undefined for any other file. */
export function keyFromFileName(name: string): RecordKey | undefined {
  const suffix = [recordSuffix, planSuffix].find((each) => name.endsWith(each));
  if (suffix === undefined || name.startsWith(".")) return undefined;
  const stem = name.slice(0, -suffix.length);
  // A container ID has no "@", an interface name may have some.
  const separator = stem.indexOf("@");
  if (separator < 1) return undefined;
  return { containerId: stem.slice(0, separator), ifName: stem.slice(separator + 1) };
}
