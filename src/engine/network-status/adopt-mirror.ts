import type { CallContext } from "#engine/call/deps.ts";
import { podIdentity } from "#engine/call/pod-identity.ts";
import type { SandboxLocks } from "#engine/call/sandbox-locks.ts";
import { usableRecord } from "#engine/hotplug/desired-networks.ts";
import type { Pod } from "#engine/ports.ts";
import type { AttachmentRecord, RecordKey } from "#engine/record/record.ts";
import { mirrorAnnotation } from "#npwg/object-meta.ts";
import { pay } from "./pending-status.ts";
import { statusOfRecord } from "./publish-status.ts";

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
  for (const key of await records.keysOf(mirror)) {
    const stored = await records.load(key);
    if (stored === undefined || !isOfFormerMirror(stored.record, mirror)) continue;
    if (!(await changePod(ctx, key, { mirror, locks }))) return false;
    // It stays in the record until it is published, which may take long.
    void pay(ctx, key, { locks }).catch((err: unknown) =>
      ctx.logger.warn({ err }, "cannot publish the status of a new mirror"),
    );
  }
  return true;
}

async function changePod(
  ctx: CallContext,
  key: RecordKey,
  { mirror, locks }: { readonly mirror: Pod; readonly locks: SandboxLocks },
): Promise<boolean> {
  const { records } = ctx.deps;
  using _lock = await locks.acquire(key.containerId);
  if (await records.isLocked(key.containerId)) return false;
  const stored = await records.load(key);
  if (stored === undefined || !isOfFormerMirror(stored.record, mirror)) return true;
  const { statusPause: _, ...record } = stored.record;
  const { namespace, name, uid } = mirror;
  const pendingStatus = await statusOfRecord(ctx, record);
  await records.update({ ...record, pod: { namespace, name, uid }, pendingStatus }, stored.plan);
  return true;
}

/** The runtime knows a static pod by the UID that its mirror names. */
function isOfFormerMirror(record: AttachmentRecord, { uid, annotations }: Pod): boolean {
  const ofRuntime = podIdentity(record.attachments[0]?.cniArgs ?? [])?.uid;
  const isSamePod = ofRuntime !== undefined && ofRuntime === annotations[mirrorAnnotation];
  return isSamePod && record.pod?.uid !== uid && usableRecord(record);
}
