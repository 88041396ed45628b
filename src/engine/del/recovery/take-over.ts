import { CniError, CniErrorCode } from "#cni/error.ts";
import type { CallContext } from "#engine/call/deps.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import { attachmentsByAnnotation } from "./annotation.ts";
import { type ForeignSandbox, recordAndDetach } from "./foreign-sandbox.ts";
import { multusAttachments } from "./multus.ts";

/**
 * Detaches a sandbox that Multus attached, by Multus's own files. The shim removes these once there is a record.
 * @returns whether there were any that can be used
 * @throws CniError 5 when they cannot be read, and as {@link recordAndDetach}
 */
export async function takeOverFromMultus(
  ctx: CallContext,
  sandbox: ForeignSandbox,
): Promise<boolean> {
  const attachments = await usableAttachments(ctx, sandbox);
  if (attachments === undefined) return false;
  ctx.logger.info({ networks: attachments.length }, "detaching a sandbox that Multus attached");
  await recordAndDetach(ctx, sandbox, attachments);
  return true;
}

/** Files that are damaged stay so, and must not keep the sandbox for ever. */
async function usableAttachments(
  ctx: CallContext,
  sandbox: ForeignSandbox,
): Promise<RecordedAttachment[] | undefined> {
  try {
    return await multusAttachments(ctx, sandbox);
  } catch (error) {
    if (!(error instanceof CniError) || error.code === CniErrorCode.IoFailure) throw error;
    const message =
      "Multus's file of the sandbox cannot be used: its further networks may keep addresses";
    ctx.logger.error({ err: error }, message);
    return undefined;
  }
}

/**
 * Detaches a sandbox whose record and plan are lost as its pod's annotation and the definitions say today,
 * with a warning and an event.
 * @returns whether there was anything to go by
 * @throws CniError as {@link recordAndDetach}
 */
export async function detachByAnnotation(
  ctx: CallContext,
  sandbox: ForeignSandbox,
  options: { readonly wasDamaged: boolean },
): Promise<boolean> {
  const lost = await attachmentsByAnnotation(ctx, sandbox, options);
  if (lost === undefined) return false;
  const { pod, attachments } = lost;
  const networks = attachments.map(({ displayName, ifName }) => `${displayName} (${ifName})`);
  const message =
    "record and teardown plan are lost: the sandbox is detached as the pod's annotation and the " +
    `definitions are today, from ${networks.join(", ")}`;
  ctx.logger.warn({}, message);
  ctx.deps.events.record(pod, { type: "Warning", reason: "DetachedByAnnotation", message });
  await recordAndDetach(ctx, sandbox, attachments);
  return true;
}
