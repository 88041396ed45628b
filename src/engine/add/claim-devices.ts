import { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { holderOf, recordedDevice } from "#engine/del/chain/held-device.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import { pause } from "#lib/concurrency/deadline.ts";
import { TimeBudget } from "#lib/concurrency/time-budget.ts";
import type { RecordKey } from "#lib/files/state-files.ts";

/** Below the time that runtimes wait for an ADD; the kubelet repeats it. */
const waitMs = 10_000;
const pollMs = 50;

/**
 * Keeps DELs of other sandboxes that are recorded with a device of these attachments from resetting
 * it. The record of this ADD has to exist, because DELs that an engine serves later find the device
 * in it. A DEL without an engine finds the other record marked. One that has begun saw no mark, so
 * this waits for it, and has to mark before it looks for locks. While another sandbox may run with
 * the device, the record of this ADD is marked too.
 * @throws CniError 11 when such an operation does not end in time, 5 when a mark cannot be written
 */
export async function claimDevices(
  ctx: CallContext,
  sandbox: RecordKey,
  attachments: readonly Pick<RecordedAttachment, "device">[],
): Promise<void> {
  const { records, clock } = ctx.deps;
  const budget = new TimeBudget(clock, waitMs);
  for (const { id } of attachments.flatMap(({ device }) => device ?? [])) {
    const device = await recordedDevice(ctx, id, sandbox.containerId);
    if ((await holderOf(ctx, device)) !== undefined) await records.requireEngine(sandbox);
    // The plan of a damaged record may be whole.
    for (const other of [...device.others, ...device.damaged]) {
      await records.requireEngine(other);
      while (await records.isLocked(other.containerId)) {
        if (budget.remainingMs === 0) throw stillInTeardown(id, other.containerId);
        await pause(pollMs, ctx.signal);
        ctx.signal.throwIfAborted();
      }
    }
  }
}

function stillInTeardown(id: string, containerId: string): CniError {
  return new CniError(
    "TryAgainLater",
    `device ${id} is not free: an operation on container ${containerId}, which had it before, is still running`,
  );
}
