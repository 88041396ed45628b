import type { Reason } from "#cni/error.ts";
import type { CallContext, EngineDeps } from "#engine/call/deps.ts";
import type { AttachmentRecord, FailedTeardown } from "#engine/record/record.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/** What a record says after one more failure, with the first one in this boot. */
export function failedTeardown(
  { bootId, clock, now }: Pick<EngineDeps, "clock" | "bootId" | "now">,
  { teardown }: Pick<AttachmentRecord, "teardown">,
  error: { readonly message: string; readonly reason?: Reason | undefined },
): FailedTeardown & Required<Pick<FailedTeardown, "since">> {
  const failedAt = now();
  const current = { bootId: bootId(), clockMs: Math.floor(clock()) };
  const { firstFailedAt = failedAt, attempts = 0, since = current } = teardown ?? {};
  const isSameBoot = current.bootId !== "" && since.bootId === current.bootId;
  const first = { firstFailedAt, since: isSameBoot ? since : current };
  const { message: lastError, reason } = error;
  return omitUndefined({ ...first, failedAt, attempts: attempts + 1, lastError, reason });
}

/** Emits the event of a pod whose sandbox could not be detached. */
export function emitLeftover(
  { deps }: CallContext,
  { pod }: Pick<AttachmentRecord, "pod">,
  reason: string,
): void {
  if (pod === undefined) return;
  const message = `could not be detached and stays recorded: ${reason}`;
  deps.events.record(pod, { type: "Warning", reason: "LeftoverAttachment", message });
}
