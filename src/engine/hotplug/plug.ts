import { asCniError, type CniError } from "#cni/error.ts";
import { AddRecord } from "#engine/add/add-record.ts";
import { attachNetworks } from "#engine/add/attach-networks.ts";
import { claimDevices } from "#engine/add/claim-devices.ts";
import { emitAttached } from "#engine/add/events.ts";
import { missingInterfaces } from "#engine/add/kernel-interfaces.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { detachAll } from "#engine/del/detach.ts";
import { type PendingStatus, statusOfRecord } from "#engine/network-status/publish-status.ts";
import type { PlannedAttachment } from "#engine/plan/planned-attachment.ts";
import { HostGoneError, type Pod } from "#engine/ports.ts";
import { detachables, type StoredRecord } from "#engine/record/teardown-plan.ts";

/** A network to plug into a running sandbox. */
interface NetworkToPlug {
  readonly pod: Pod;
  readonly planned: PlannedAttachment;
  /** The size of the record with all networks, without the result of this one. */
  readonly recordBytes: number;
}

/**
 * Attaches one network to a running sandbox. The record names it, durably, before its first plugin
 * runs. A network that cannot be attached is detached alone; what cannot be detached stays recorded.
 * @returns the status to publish
 * @throws CniError with the failing delegate's code, HostGoneError when the agent has gone
 */
export async function plug(
  ctx: CallContext,
  stored: StoredRecord,
  { pod, planned, recordBytes }: NetworkToPlug,
): Promise<PendingStatus> {
  const { attachments: _, ...sandbox } = stored.record;
  const networks = { attachments: [planned], earlier: detachables(stored) };
  const record = new AddRecord(ctx, sandbox, networks);
  await record.updateAhead();
  await ctx.deps.records.flush();
  try {
    await claimDevices(ctx, sandbox, [planned]);
    const { attached, kernel } = await attachNetworks(ctx, record, { ...networks, recordBytes });
    const present = await kernel;
    for (const each of attached) {
      const userSpaceInterfaces = missingInterfaces(each.result, present);
      record.noteAttached(0, { ...each, userSpaceInterfaces });
    }
    const { containerId } = sandbox;
    const pendingStatus = await statusOfRecord(ctx, {
      containerId,
      attachments: record.attachments,
    });
    await record.update({ pendingStatus });
    emitAttached(ctx, pod, attached);
    return pendingStatus;
  } catch (error) {
    if (!(error instanceof HostGoneError)) await undo(ctx, record);
    throw error;
  }
}

/** Never rejects, unless the agent has gone: what is left stays recorded, and is removed later. */
async function undo(ctx: CallContext, record: AddRecord): Promise<void> {
  // A record that cannot be written may fail an attachment whose plugins have succeeded.
  record.note(0, { state: "attempted", hotPlug: "adding" });
  const { attempted, sandbox } = record;
  try {
    // Otherwise later DELs cannot tell the plugin's error from a partial attachment.
    await record.update({ only: attempted });
    const failures = await detachAll(ctx, sandbox, attempted);
    for (const { error } of failures) logNotUndone(ctx, error);
    await record.update({ only: failures.map(({ item }) => item) });
  } catch (error) {
    if (error instanceof HostGoneError) throw error;
    logNotUndone(ctx, asCniError(error));
  }
}

function logNotUndone(ctx: CallContext, err: CniError): void {
  ctx.logger.error({ err }, "cannot undo the attachment, which stays recorded");
}
