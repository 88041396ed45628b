import type { EngineDeps } from "#engine/call/deps.ts";
import type { PublishPause } from "#engine/ports.ts";
import type { AttachmentRecord, StatusPause } from "#engine/record/record.ts";

/*
 * If the API server rejects a status or asks for a pause, the record that owes the status says so
 * to later processes: on a node without plexusd, each call is another one.
 */

/** Longer ones are those of another boot whose ID is not known. */
const maxMs = 3_600_000;

type Clock = Pick<EngineDeps, "bootId" | "clock">;

/** A pause that begins now, as the record has it. */
export function statusPause(
  { bootId, clock }: Clock,
  { milliseconds, isForAll }: PublishPause,
): StatusPause {
  const clockMs = Math.ceil(clock() + Math.min(milliseconds, maxMs));
  return { bootId: bootId(), clockMs, isForAll };
}

/** Of records that owe a status, those whose status can be sent now. */
export function withoutPause(
  { bootId, clock }: Clock,
  records: readonly AttachmentRecord[],
): AttachmentRecord[] {
  const nowMs = clock();
  const isPaused = ({ statusPause }: AttachmentRecord): boolean => {
    if (statusPause === undefined || statusPause.bootId !== bootId()) return false;
    const restMs = statusPause.clockMs - nowMs;
    return restMs > 0 && restMs <= maxMs;
  };
  const paused = records.filter(isPaused);
  if (paused.some(({ statusPause }) => statusPause?.isForAll)) return [];
  return records.filter((record) => !paused.includes(record));
}
