import type { CallContext } from "#engine/call/call-context.ts";
import { podIdentity } from "#engine/call/pod-identity.ts";
import type { SandboxLocks } from "#engine/call/sandbox-locks.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import { type AttachmentRecord, usableRecord } from "#engine/record/record.ts";
import { mirrorAnnotation } from "#npwg/object-meta.ts";
import { changeRecord, owe, payAfterAnswer } from "./status-writer.ts";

/**
 * Records the present mirror of a static pod, and publishes its status. The kubelet makes a deleted
 * mirror anew, with another UID and without a status, while the pod's sandbox stays.
 * @returns false while another process works on the sandbox
 * @throws CniError when a record cannot be read or written
 */
export async function adoptMirror(
  ctx: CallContext,
  mirror: Pod,
  locks: SandboxLocks,
): Promise<boolean> {
  const { records } = ctx.deps;
  const { namespace, name, uid } = mirror;
  for (const key of await records.keysOf(mirror)) {
    const stored = await records.load(key);
    if (stored === undefined || !isOfFormerMirror(stored.record, mirror)) continue;
    const change = async (record: AttachmentRecord): Promise<AttachmentRecord | undefined> => {
      if (!isOfFormerMirror(record, mirror)) return undefined;
      const { statusPause: _, ...others } = record;
      const owed = await owe(ctx, record, { pod: mirror });
      return { ...others, pod: { namespace, name, uid }, ...owed };
    };
    const outcome = await changeRecord(ctx.deps, key, { locks, change });
    if (outcome === "inUse") return false;
    if (outcome === "changed") void payAfterAnswer(ctx, key, { locks });
  }
  return true;
}

/** The runtime knows a static pod by the UID that its mirror names. */
function isOfFormerMirror(record: AttachmentRecord, { uid, annotations }: Pod): boolean {
  const ofRuntime = podIdentity(record.attachments[0]?.cniArgs ?? [])?.uid;
  const isSamePod = ofRuntime !== undefined && ofRuntime === annotations[mirrorAnnotation];
  return isSamePod && record.pod?.uid !== uid && usableRecord(record);
}
