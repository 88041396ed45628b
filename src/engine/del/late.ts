import type { CallContext } from "#engine/call/call-context.ts";
import { type AttachmentRecord, addHasEnded } from "#engine/record/record.ts";

/**
 * Whether a DEL is of an earlier sandbox than the record with its name: it waited, and its sandbox
 * was detached and attached again meanwhile. An ADD that did not end was perhaps the one whose end
 * the runtime did not await.
 */
export function isLate(ctx: CallContext, record: AttachmentRecord): boolean {
  return addHasEnded(record) && isOlder(ctx, record);
}

/**
 * Whether a call's shim had started when the record was made. Date and clock have to say so: a date
 * that was set back makes the call look older than it is, and one that was set forward while it
 * waited makes the record look younger. Without waiting, a DEL is never older.
 */
function isOlder({ deps, shimStartedUs = 0 }: CallContext, record: AttachmentRecord): boolean {
  const { bootId, clockMs, createdAt } = record;
  if (!(shimStartedUs > 0) || bootId === "" || bootId !== deps.bootId()) return false;
  const startedMs = shimStartedUs / 1000;
  const ageMs = deps.clock() - clockMs;
  return Date.parse(createdAt) > startedMs && ageMs < Date.parse(deps.now()) - startedMs;
}
