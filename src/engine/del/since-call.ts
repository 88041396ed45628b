import type { CallContext } from "#engine/call/call-context.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";

/**
 * Whether a record was made since the runtime called, by its date, and by its age on the clock. The
 * call may have waited for other operations. A date that was set back makes the call look older than
 * it is, and one that was set forward while it waited makes the record look younger, so the two can
 * differ. Both say no if the shim's start is unknown. A record of another boot has no age.
 */
export function madeSinceCall(
  { deps, shimStartedUs = Number.NaN }: Pick<CallContext, "deps" | "shimStartedUs">,
  { bootId, clockMs, createdAt }: AttachmentRecord,
): { readonly byDate: boolean; readonly byClock: boolean; readonly ageMs: number | undefined } {
  const startedMs = shimStartedUs / 1000;
  const isOfBoot = bootId !== "" && bootId === deps.bootId();
  const ageMs = isOfBoot ? deps.clock() - clockMs : undefined;
  return {
    byDate: Date.parse(createdAt) > startedMs,
    byClock: ageMs !== undefined && ageMs < Date.parse(deps.now()) - startedMs,
    ageMs,
  };
}
