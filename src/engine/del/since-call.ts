import type { CallContext } from "#engine/call/call-context.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";

/**
 * Whether a record was certainly made since the runtime called, which may have been long ago: the
 * call waited for other operations, or this process was stopped. By the clock that is never set,
 * which begins with the boot. No if the boot or the shim's start is unknown, or the record is from
 * the future: a date that was set while plexus-standalone started changes its clock.
 */
export function isMadeSinceCall(ctx: CallContext, { bootId, clockMs }: AttachmentRecord): boolean {
  const { deps, shimStartedUs = Number.NaN } = ctx;
  if (bootId === "" || bootId !== deps.bootId()) return false;
  return clockMs > shimStartedUs / 1000 && clockMs <= deps.clock();
}
