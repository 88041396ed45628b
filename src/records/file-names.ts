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

/** The sandbox interfaces that have a record or a plan among these files, sorted. */
export function keysFromFileNames(names: Iterable<string>): RecordKey[] {
  const keys = [...names].flatMap((name) => keyFromFileName(name) ?? []);
  const byStem = new Map(keys.map((key) => [fileStem(key), key]));
  return [...byStem.keys()].sort().flatMap((stem) => byStem.get(stem) ?? []);
}

function keyFromFileName(name: string): RecordKey | undefined {
  const suffix = [recordSuffix, planSuffix].find((each) => name.endsWith(each));
  if (suffix === undefined || name.startsWith(".")) return undefined;
  const stem = name.slice(0, -suffix.length);
  // A container ID has no "@", an interface name may have some.
  const separator = stem.indexOf("@");
  if (separator < 1) return undefined;
  return { containerId: stem.slice(0, separator), ifName: stem.slice(separator + 1) };
}
