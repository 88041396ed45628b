import type { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

const lastErrorMax = 1024;

type FailedTeardown = NonNullable<AttachmentRecord["teardown"]>;

type Failure = Pick<CniError, "message"> & Partial<Pick<CniError, "reason">>;

/** The error in the record while the other attachments are being detached. */
const interrupted: Failure = { message: "the last DEL was interrupted", reason: "TryAgainLater" };

/** What a record says after one more failure. @param error @default the DEL was interrupted */
export function failedTeardown(
  { now }: Pick<EngineDeps, "now">,
  { teardown }: Pick<AttachmentRecord, "teardown">,
  { message, reason }: Failure = interrupted,
): FailedTeardown {
  const failedAt = now();
  const { firstFailedAt = failedAt, attempts = 0 } = teardown ?? {};
  const lastError = message.slice(0, lastErrorMax);
  return omitUndefined({ firstFailedAt, failedAt, attempts: attempts + 1, lastError, reason });
}

/** Since when the DELs of an attachment have left only what can be given up, in this boot. */
export function givenUpSince(
  { clock, bootId }: Pick<EngineDeps, "clock" | "bootId">,
  { teardown }: Pick<RecordedAttachment, "teardown">,
): NonNullable<FailedTeardown["missingSince"]> {
  const before = teardown?.missingSince;
  if (before?.bootId === bootId() && bootId() !== "") return before;
  return { bootId: bootId(), clockMs: Math.floor(clock()) };
}

/** Emits the event of a pod whose sandbox could not be detached. */
export function emitLeftover(
  { deps }: CallContext,
  { pod }: Pick<AttachmentRecord, "pod">,
  reason: string,
): void {
  if (pod === undefined) return;
  const message = `could not be detached and stays recorded: ${reason}`;
  deps.events.record(pod, { reason: "LeftoverAttachment", message });
}
