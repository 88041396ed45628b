import { type AttachmentRecord, isOfEarlierBoot } from "#engine/record.ts";

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
    const times = teardown.attempts === 1 ? "once" : `${teardown.attempts} times`;
    return `its teardown failed ${times}, last at ${teardown.failedAt}: ${teardown.lastError}`;
  }
  if (!isOfEarlierBoot(record, currentBootId)) return undefined;
  return "it was attached before the machine was restarted";
}

/** How long a teardown is left alone after so many failures, in milliseconds. */
export function leftoverBackoffMs(attempts: number): number {
  if (attempts < 1) return 0;
  return Math.min(maxBackoffMs, firstBackoffMs * 2 ** (attempts - 1));
}
