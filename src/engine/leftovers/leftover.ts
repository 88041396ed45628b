import { type AttachmentRecord, isOfEarlierBoot } from "#engine/record/record.ts";

/** After a first failure a teardown is repeated after this time, after each further one twice as late. */
const firstBackoffMs = 30_000;
const maxBackoffMs = 600_000;

/**
 * Why a record by itself looks like a leftover: the attachments of a sandbox that no longer exists, which
 * the container runtime will not have deleted. Undefined when it does not.
 */
export function leftoverReason(
  record: AttachmentRecord,
  currentBootId: string,
): string | undefined {
  const { teardown } = record;
  if (teardown !== undefined) {
    if (teardown.attempts === 0) return `${teardown.lastError}, since ${teardown.failedAt}`;
    const times = teardown.attempts === 1 ? "once" : `${teardown.attempts} times`;
    return `its teardown failed ${times}, last at ${teardown.failedAt}: ${teardown.lastError}`;
  }
  if (!isOfEarlierBoot(record, currentBootId)) return undefined;
  return "it was attached before the machine was restarted";
}

/**
 * How long a teardown is left alone after so many failures, in milliseconds. One that has begun gets the time of the
 * first failure: a shim may still be replaying its plan.
 */
export function leftoverBackoffMs(attempts: number): number {
  return Math.min(maxBackoffMs, firstBackoffMs * 2 ** Math.max(0, attempts - 1));
}
