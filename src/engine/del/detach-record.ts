import type { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { combineErrors } from "#engine/call/failures.ts";
import {
  type AttachmentRecord,
  attachmentsToDetach,
  type RecordedAttachment,
} from "#engine/record/record.ts";
import { detachAll, type SandboxToDetach } from "./detach.ts";
import { failingFor, TeardownProgress } from "./teardown-progress.ts";

/** How a record is detached. */
export interface DetachRecordOptions extends Pick<SandboxToDetach, "netns" | "path" | "budget"> {
  /**
   * The sandbox's lock is not held by the shim of this call, so another process may change the record
   * meanwhile: what it wrote stays. @default false
   */
  readonly withoutLock?: boolean;
  /**
   * The time may be too short for all attachments, and there will be further attempts: each attempt gives its time to another
   * attachment first. @default false
   */
  readonly inTurn?: boolean;
}

/**
 * Detaches the attachments of a record that may have been attached, and finishes the record. What is
 * detached is taken out of the record at once; when something fails, the record says so.
 * @throws CniError when something could not be detached, 102 for several networks
 */
export async function detachRecord(
  ctx: CallContext,
  record: AttachmentRecord,
  options: DetachRecordOptions,
): Promise<void> {
  const { withoutLock = false, inTurn = false, ...sandbox } = options;
  const first = inTurn ? (record.teardown?.attempts ?? 0) : undefined;
  const owed = attachmentsToDetach(record, ctx.deps.bootId());
  const progress = new TeardownProgress(ctx, { record, owed, withoutLock });
  const onDetached = (attachment: RecordedAttachment): void => progress.detached(attachment);
  const failingMs = failingFor(ctx.deps, record);
  const toDetach = { ...record, ...sandbox, first, failingMs, onDetached };
  const failures = await detachAll(ctx, toDetach, owed);
  if (failures.length === 0) return progress.finish();
  const error = notDetached(failures.map((failure) => failure.error));
  await progress.fail(error);
  throw error;
}

/** The error of a DEL for which networks could not be detached. */
export function notDetached(errors: readonly CniError[]): CniError {
  return combineErrors(errors, `${errors.length} networks could not be detached and stay recorded`);
}
