import type { CallContext } from "#engine/call/call-context.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { errorMessage } from "#lib/error-message.ts";
import type { RecordKey } from "#lib/files/state-files.ts";

/** Whether no other sandbox ever has the path: it ends in a UUID, as those of pods do. */
export function isMadeOnce(netns: string): boolean {
  return /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(netns);
}

/** Whether a sandbox's path leads to the namespace of a process, whose number is used again. */
export function isOfProcess(of: Pick<AttachmentRecord, "netns" | "netnsProcess">): boolean {
  return of.netnsProcess !== undefined || of.netns.startsWith("/proc/");
}

/** A record that cannot be used, and why; it names the file. */
export interface UnusableRecord extends RecordKey {
  readonly reason: string;
}

/** The records whose sandbox may be in the namespace at a path, and the unusable ones. */
export async function recordsAt(
  { deps, host }: CallContext,
  netns: string,
): Promise<{ records: AttachmentRecord[]; unusable: UnusableRecord[] }> {
  const records: AttachmentRecord[] = [];
  const unusable: UnusableRecord[] = [];
  for (const key of await host.occupants(netns)) {
    try {
      const stored = await deps.records.load(key);
      if (stored !== undefined) records.push(stored.record);
    } catch (error) {
      unusable.push({ ...key, reason: errorMessage(error) });
    }
  }
  return { records, unusable };
}
