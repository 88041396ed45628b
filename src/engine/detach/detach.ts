import type { CniError } from "#cni/error.ts";
import { delNetwork } from "#cni/runtime/chain.ts";
import type { CallContext } from "#engine/deps.ts";
import { collectFailures, combineErrors, type Failure } from "#engine/failures.ts";
import { recordedList, runtimeConf, withNetworkContext } from "#engine/planned-attachment.ts";
import { HostGoneError } from "#engine/ports.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { interfaceMayExist, netnsForDel } from "./netns.ts";

/**
 * Detaches attachments, last first, each whatever became of the others (multi-network specification
 * v1.1 §7.2).
 * @returns those that could not be detached
 * @throws HostGoneError when the shim has gone: the record then still names the attachments
 */
export async function detachAll(
  ctx: CallContext,
  sandbox: { readonly containerId: string; readonly netns: string },
  attachments: readonly RecordedAttachment[],
): Promise<Failure<RecordedAttachment>[]> {
  const netns = await netnsForDel(ctx, sandbox.netns);
  return collectFailures(attachments.toReversed(), async (attachment) => {
    try {
      await detach(ctx, { ...sandbox, netns }, attachment);
    } catch (error) {
      throw withNetworkContext(error, attachment);
    }
  });
}

/** Detaches the attachments of a record and removes it, unless any fails. @throws CniError, 102 for several */
export async function detachRecord(
  ctx: CallContext,
  record: AttachmentRecord,
  netns: string,
): Promise<void> {
  const sandbox = { containerId: record.containerId, netns };
  const failures = await detachAll(ctx, sandbox, record.attachments);
  if (failures.length > 0) throw notDetached(failures.map((failure) => failure.error));
  await ctx.deps.records.finish(record);
}

/** The error of a DEL for which networks could not be detached. */
export function notDetached(errors: readonly CniError[]): CniError {
  return combineErrors(errors, `${errors.length} networks could not be detached and stay recorded`);
}

/**
 * One attachment's DEL. When it fails although the interface is gone from the sandbox, it is
 * repeated without a namespace: there is nothing left to do in it, and delegates that insist on
 * finding their interface (`host-device`, `sbr`) release the rest only then.
 */
async function detach(
  ctx: CallContext,
  sandbox: { readonly containerId: string; readonly netns: string },
  attachment: RecordedAttachment,
): Promise<void> {
  const list = recordedList(attachment);
  const options = omitUndefined({
    run: ctx.delegateRunner(attachment.displayName),
    prevResult: attachment.result,
  });
  const del = (netns: string): Promise<void> => {
    const rt = runtimeConf({ ...sandbox, netns }, attachment, ctx.config.delegateTimeoutMs);
    return delNetwork(list, rt, options);
  };
  try {
    await del(sandbox.netns);
  } catch (error) {
    if (error instanceof HostGoneError || sandbox.netns === "") throw error;
    if (await interfaceMayExist(ctx, sandbox.netns, attachment.ifName)) throw error;
    await del("");
  }
}
