import { asCniError, CniError, CniErrorCode } from "#cni/error.ts";
import { delNetwork } from "#cni/runtime/chain.ts";
import type { CallContext } from "#engine/deps.ts";
import { namingNetwork, recordedList, runtimeConf } from "#engine/planned-attachment.ts";
import { HostGoneError, NetnsError } from "#engine/ports.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record.ts";
import { sandboxLinks } from "#engine/sandbox.ts";

/** An attachment whose DEL failed. */
export interface DetachFailure {
  readonly attachment: RecordedAttachment;
  readonly error: CniError;
}

/**
 * Detaches attachments, last first; every one is tried, failures are collected (multi-network
 * specification v1.1 §7.2).
 * @throws HostGoneError when the shim went: the record then still says what is attached
 */
export async function detachAll(
  ctx: CallContext,
  sandbox: { readonly containerId: string; readonly netns: string },
  attachments: readonly RecordedAttachment[],
): Promise<DetachFailure[]> {
  const failures: DetachFailure[] = [];
  const netns = await usableNetns(ctx, sandbox.netns);
  for (const attachment of attachments.toReversed()) {
    try {
      await detach(ctx, { ...sandbox, netns }, attachment);
    } catch (error) {
      if (error instanceof HostGoneError) throw error;
      failures.push({ attachment, error: asCniError(namingNetwork(error, attachment)) });
    }
  }
  return failures;
}

/** Detaches what a record says and forgets it; what failed stays recorded. @throws CniError 102 */
export async function detachRecord(
  ctx: CallContext,
  record: AttachmentRecord,
  netns: string,
): Promise<void> {
  const sandbox = { containerId: record.containerId, netns };
  const failures = await detachAll(ctx, sandbox, record.attachments);
  if (failures.length > 0) throw failedTogether(failures.map((failure) => failure.error));
  await ctx.deps.records.remove(record);
}

/** One error of several failed DELs; a single one keeps its delegate's code. */
export function failedTogether(errors: readonly CniError[]): CniError {
  const [first] = errors;
  if (errors.length === 1 && first !== undefined) return first;
  return new CniError(
    CniErrorCode.TeardownIncomplete,
    `${errors.length} networks could not be detached and stay recorded: ` +
      errors.map((error) => error.message).join("; "),
    { cause: new AggregateError(errors) },
  );
}

/**
 * One attachment's DEL. Where it fails although the interface is gone from the sandbox, it is
 * repeated without a namespace: there is nothing left to do in it, and delegates that insist on
 * finding their interface (`host-device`, `sbr`) release the rest only then.
 */
async function detach(
  ctx: CallContext,
  sandbox: { readonly containerId: string; readonly netns: string },
  attachment: RecordedAttachment,
): Promise<void> {
  const list = recordedList(attachment);
  const run = ctx.run(attachment.displayName);
  const options = {
    run,
    ...(attachment.result === undefined ? {} : { prevResult: attachment.result }),
  };
  const del = (netns: string): Promise<void> =>
    delNetwork(
      list,
      runtimeConf({ ...sandbox, netns }, attachment, ctx.config.delegateTimeoutMs),
      options,
    );
  try {
    await del(sandbox.netns);
  } catch (error) {
    if (error instanceof HostGoneError || sandbox.netns === "") throw error;
    if (await hasInterface(ctx, sandbox.netns, attachment.ifName)) throw error;
    await del("");
  }
}

/**
 * The namespace to tell delegates of on DEL: none when it cannot be entered any more. With a
 * stale path `host-device` fails for ever and `sbr` creates a file there.
 */
export async function usableNetns(ctx: CallContext, netns: string): Promise<string> {
  if (netns === "") return "";
  try {
    await linkNames(ctx, netns);
    return netns;
  } catch (error) {
    if (error instanceof NetnsError) return "";
    if (error instanceof HostGoneError) throw error;
    ctx.logger.warn({ err: error, netns }, "the interfaces of the sandbox cannot be listed");
    return netns;
  }
}

/** Whether an interface is still in a namespace: in doubt it is, in a namespace that is gone it is not. */
export async function hasInterface(
  ctx: CallContext,
  netns: string,
  ifName: string,
): Promise<boolean> {
  try {
    return (await linkNames(ctx, netns)).has(ifName);
  } catch (error) {
    if (error instanceof HostGoneError) throw error;
    return !(error instanceof NetnsError);
  }
}

async function linkNames(ctx: CallContext, netns: string): Promise<Set<string>> {
  const links = await sandboxLinks(ctx, netns);
  return new Set(links.map((link) => link.name));
}
