import type { CallContext } from "#engine/call/deps.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";

/** Emits the event of a sandbox that could not be detached, where it is a pod's. */
export function reportLeftover(
  { deps }: CallContext,
  { pod }: Pick<AttachmentRecord, "pod">,
  reason: string,
): void {
  if (pod === undefined) return;
  const message = `could not be detached and stays recorded: ${reason}`;
  deps.events.record(pod, { type: "Warning", reason: "LeftoverAttachment", message });
}
