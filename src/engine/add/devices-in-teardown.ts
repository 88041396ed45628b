import { CniError, CniErrorCode } from "#cni/error.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { hasDevice } from "#engine/del/chain/held-device.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import { pause } from "#lib/concurrency/deadline.ts";
import { TimeBudget } from "#lib/concurrency/time-budget.ts";

/** Below the time that runtimes wait for an ADD; the kubelet repeats it. */
const waitMs = 10_000;
const pollMs = 50;

/**
 * Waits for operations on other sandboxes that have a device of these attachments, because a DEL
 * that has begun may still reset it. DELs that begin later find the record of this ADD, which
 * therefore has to exist.
 * @throws CniError 11 when such an operation does not end in time
 */
export async function awaitDevices(
  ctx: CallContext,
  { containerId }: Pick<AttachmentRecord, "containerId">,
  attachments: readonly Pick<RecordedAttachment, "device">[],
): Promise<void> {
  const { records, clock } = ctx.deps;
  const budget = new TimeBudget(clock, waitMs);
  for (const { id } of attachments.flatMap(({ device }) => device ?? [])) {
    const listed = await records.list({ containing: JSON.stringify(id) });
    const others = listed.records.filter(
      (record) => record.containerId !== containerId && hasDevice(record, id),
    );
    for (const other of others) {
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
    CniErrorCode.TryAgainLater,
    `device ${id} is not free: an operation on container ${containerId}, which had it before, is still running`,
  );
}
