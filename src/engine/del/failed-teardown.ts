import type { Reason } from "#cni/error.ts";
import type { CallContext, EngineDeps } from "#engine/call/deps.ts";
import type { AttachmentRecord, BootTime, FailedTeardown } from "#engine/record/record.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/** What a record says after one more failure, with the first one in this boot. */
export function failedTeardown(
  { bootId, clock, now }: Pick<EngineDeps, "clock" | "bootId" | "now">,
  { teardown }: Pick<AttachmentRecord, "teardown">,
  error: { readonly message: string; readonly reason?: Reason | undefined },
): FailedTeardown & Required<Pick<FailedTeardown, "since">> {
  const failedAt = now();
  const current = { bootId: bootId(), clockMs: Math.floor(clock()) };
  const { firstFailedAt = failedAt, attempts = 0 } = teardown ?? {};
  const ofThisBoot = (time: BootTime | undefined): BootTime | undefined =>
    current.bootId !== "" && time?.bootId === current.bootId ? time : undefined;
  const { message: lastError, reason } = error;
  return omitUndefined({
    firstFailedAt,
    since: ofThisBoot(teardown?.since) ?? current,
    missingSince: ofThisBoot(teardown?.missingSince),
    ...{ failedAt, attempts: attempts + 1, lastError, reason },
  });
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
