import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import type { DamagedRecord } from "#engine/ports/records.ts";
import type { AttachmentRecord, RecordedSandbox } from "#engine/record/record.ts";

/** The end of a path that a runtime makes for one sandbox only. */
const madeOnce = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Whether no other sandbox ever has the path: it ends in a UUID, as those of pods do. */
export function isMadeOnce(netns: string): boolean {
  return madeOnce.test(netns);
}

/** Whether a sandbox's path leads to the namespace of a process, whose number is used again. */
export function isOfProcess({
  netns,
  netnsProcess,
}: Pick<RecordedSandbox, "netns" | "netnsProcess">): boolean {
  return netnsProcess !== undefined || netns.startsWith("/proc/");
}

/** Whether two paths are one: `/var/run` is a link of the system to `/run`. */
export function isSamePath(a: string | undefined, b: string): boolean {
  return a !== undefined && belowRun(a) === belowRun(b);
}

function belowRun(netns: string): string {
  return netns.replace(/^\/var\/run\//, "/run/");
}

/** The records of all sandboxes whose namespace was at a path, and those that cannot be read. */
export async function recordsAt(
  { records }: Pick<EngineDeps, "records">,
  netns: string,
): Promise<{ records: AttachmentRecord[]; damaged: DamagedRecord[] }> {
  const end = JSON.stringify(belowRun(netns)).slice(1);
  const found = await records.list({ containing: end });
  return { ...found, records: found.records.filter((each) => isSamePath(each.netns, netns)) };
}
