import { CniError } from "#cni/error.ts";
import type { AddRequest } from "#cni/plugin/request.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { sandboxLinks } from "#engine/call/sandbox.ts";
import { signOfBoot } from "#engine/call/sign-of-boot.ts";
import { mayBePresent } from "#engine/del/chain/own-interfaces.ts";
import { detachRecord } from "#engine/del/detach-record.ts";
import { isOfProcess } from "#engine/del/netns-path.ts";
import { detachUnrecorded } from "#engine/del/recovery/recover.ts";
import { isNothing, isOfLaterProcess } from "#engine/del/signs-of-life.ts";
import { loadStored } from "#engine/del/stored.ts";
import { NetnsError } from "#engine/ports/host.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { linksOfCall } from "./kernel-interfaces.ts";

/**
 * Detaches what an earlier sandbox with the call's container ID and interface has left: nerdctl
 * sends no DEL after a crash. That the runtime attaches it again is one sign that it is over. The
 * other is that its namespace has nothing of it; or, if only a file is left at its path, that the
 * machine was restarted since: /run may be on a disk.
 * @throws CniError 103 while it may run, 5 or 6 when its record cannot be used, and as
 *   {@link detachRecord}
 */
export async function detachEarlier(ctx: CallContext, request: AddRequest): Promise<void> {
  const { ifName, path, conf } = request;
  const stored = await loadStored(ctx.deps.records, request);
  if (stored.state === "absent") return;
  if (stored.state === "usable") {
    if (!(await isReplaced(ctx, stored.value.record, request))) throw alreadyAttached(request);
    return detachRecord(ctx, stored.value, { netns: "", path });
  }
  const { isIncomplete, error } = stored.record;
  if (!(isIncomplete && (await isFree(ctx, request, [ifName])))) throw error;
  const { cniVersion, runtimeConfig } = conf;
  await detachUnrecorded(ctx, { ...request, netns: "", cniVersion, runtimeConfig }, stored.record);
}

/** Whether nothing of a record is in its namespace or the call's. */
async function isReplaced(
  ctx: CallContext,
  record: AttachmentRecord,
  request: AddRequest,
): Promise<boolean> {
  const { netns, attachments } = record;
  const names = attachments.map(({ ifName }) => ifName);
  if (!(await isFree(ctx, request, names))) return false;
  if (await isOfLaterProcess(ctx, record)) return true;
  try {
    const links = await sandboxLinks(ctx, netns);
    // A process ID is used again: the MAC address tells one container's interface from another's.
    return isOfProcess(record)
      ? !attachments.some((each) => mayBePresent(each, links))
      : !links.some(({ name }) => names.includes(name));
  } catch (error) {
    if (!(error instanceof NetnsError)) throw error;
    return isNothing(error) || signOfBoot(record, ctx.deps) !== undefined;
  }
}

/** Whether the call's namespace has none of these interfaces. */
async function isFree(
  ctx: CallContext,
  { netns }: AddRequest,
  names: readonly string[],
): Promise<boolean> {
  const links = await linksOfCall(ctx, netns);
  return !names.some((name) => links.has(name));
}

function alreadyAttached({ ifName, containerId }: AddRequest): CniError {
  return new CniError(
    "AlreadyAttached",
    `interface ${ifName} of container ${containerId} is attached already: ` +
      "the runtime must DEL before it ADDs again",
  );
}
