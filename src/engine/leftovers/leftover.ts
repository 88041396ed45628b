import type { CallContext } from "#engine/call/call-context.ts";
import { signOfBoot } from "#engine/call/sign-of-boot.ts";
import { replaced, replacedRecords } from "#engine/del/signs-of-life.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { type AttachmentRecord, addHasEnded, begunTeardown } from "#engine/record/record.ts";
import type { StoredRecord } from "#engine/record/teardown-plan.ts";

/** Backoff after the first failure; it doubles with each further one. */
const firstBackoffMs = 30_000;
const maxBackoffMs = 600_000;

/**
 * Whether an ADD was interrupted: the runtime got no result, so it uses nothing of it, and a runtime
 * that was killed may have forgotten it. While its shim lives, the sandbox is locked. A record whose
 * last update is lost does not tell.
 * @param nowMs by `EngineDeps.clock`
 */
export function isInterruptedAdd(record: AttachmentRecord, nowMs: number): boolean {
  if (record.hasLostUpdate || addHasEnded(record)) return false;
  // Negative after a restart of the machine, which is another sign.
  return nowMs - record.clockMs >= firstBackoffMs;
}

/** What a process knows of the node at the moment, for all leftovers that it counts or lists. */
export interface NodeNow extends Pick<EngineDeps, "bootId" | "clock" | "now"> {
  /** Whether certainly nothing is at the path of a record's namespace. */
  readonly isNothingAt: (netns: string) => boolean;
  /** The records that a later sandbox has replaced. @default none that are known */
  readonly replaced?: ReadonlySet<AttachmentRecord>;
}

/** What a process with these dependencies knows. */
export function nodeNow(
  deps: Pick<EngineDeps, "bootId" | "clock" | "now" | "isNothingAt">,
  records: readonly AttachmentRecord[],
): NodeNow {
  const { bootId, clock, now, isNothingAt = () => false } = deps;
  const replaced = new Set(replacedRecords(records, bootId()));
  return { bootId, clock, now, isNothingAt, replaced };
}

/** Why the record alone makes it a leftover, which the runtime will not delete; else undefined. */
export function leftoverReason(record: AttachmentRecord, node: NodeNow): string | undefined {
  const { teardown } = record;
  const { clock, isNothingAt, replaced: others } = node;
  if (teardown !== undefined) {
    if (teardown.attempts === 0) return `${teardown.lastError}, since ${teardown.failedAt}`;
    const times = teardown.attempts === 1 ? "once" : `${teardown.attempts} times`;
    return `its teardown failed ${times}, last at ${teardown.failedAt}: ${teardown.lastError}`;
  }
  const sign = signOfBoot(record, node);
  if (sign !== undefined && isNothingAt(record.netns)) return sign;
  if (others?.has(record) && isNothingAt(record.netns)) return replaced;
  if (isInterruptedAdd(record, clock())) return `its ADD at ${record.createdAt} did not end`;
  return undefined;
}

/**
 * Marks the record of a sandbox that is over, so that all tools see what it is, also after a restart.
 * Never rejects: what cannot be marked is detached, too.
 */
export async function markOver(
  { deps, logger }: Pick<CallContext, "deps" | "logger">,
  { record, plan }: StoredRecord,
  why: string,
): Promise<StoredRecord> {
  const marked = { ...record, teardown: begunTeardown(deps.now(), why) };
  try {
    await deps.records.update(marked, plan);
    return { record: marked, plan };
  } catch (err) {
    logger.warn({ err }, "cannot mark a leftover");
    return { record, plan };
  }
}

/** Milliseconds to wait; also before the first failure, when a shim may be replaying the plan. */
export function leftoverBackoffMs(attempts: number): number {
  return Math.min(maxBackoffMs, firstBackoffMs * 2 ** Math.max(0, attempts - 1));
}

/** Never retried ones first, then by the time of the last failure. */
export function byLastFailure(records: readonly AttachmentRecord[]): AttachmentRecord[] {
  const failedAt = ({ teardown }: AttachmentRecord): string => teardown?.failedAt ?? "";
  return records.toSorted((a, b) => failedAt(a).localeCompare(failedAt(b)));
}
