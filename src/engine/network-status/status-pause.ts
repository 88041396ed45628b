import type { PublishPause } from "#engine/ports/cluster.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import type { AttachmentRecord, StatusPause } from "#engine/record/record.ts";

/*
 * If the API server rejects a status or asks for a pause, the record that owes the status says so
 * to later processes: on a node without plexusd, each call is another one.
 */

/** Of each pause. A later end was recorded in another boot, whose ID is not known. */
const maxMs = 3_600_000;

type Clock = Pick<EngineDeps, "bootId" | "clock">;

/**
 * A pause that begins now, as the record has it. After a rejection, it is at least twice as long as
 * the one before: a process for one call knows no other backoff.
 */
export function statusPause(
  { bootId, clock }: Clock,
  { milliseconds: asked, isForAll }: PublishPause,
  before?: StatusPause,
): StatusPause {
  const leastMs = isForAll || before === undefined ? 0 : 2 * before.milliseconds;
  const milliseconds = Math.ceil(Math.min(maxMs, Math.max(asked, leastMs)));
  return { bootId: bootId(), clockMs: Math.floor(clock()) + milliseconds, milliseconds, isForAll };
}

/** For how long other processes leave a status to plexus-standalone, which pays it after the answer. */
const ownMs = 3000;

/** What a record owes until the process that serves its ADD has paid it, or has ended. */
export function owedByItsCall(
  deps: Clock & Pick<EngineDeps, "leftoverDuty">,
  owed: Pick<AttachmentRecord, "pendingStatus">,
): Pick<AttachmentRecord, "pendingStatus" | "statusPause"> {
  if (deps.leftoverDuty !== "oneCall" || owed.pendingStatus === undefined) return owed;
  return { ...owed, statusPause: statusPause(deps, { milliseconds: ownMs, isForAll: false }) };
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
