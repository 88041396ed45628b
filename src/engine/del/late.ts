import type { DelRequest } from "#cni/plugin/request.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { sandboxLinks } from "#engine/call/sandbox.ts";
import { isNetnsOf } from "#engine/del/chain/netns.ts";
import { isPresent } from "#engine/del/chain/own-interfaces.ts";
import { isOfProcess } from "#engine/del/netns-path.ts";
import { isMadeSinceCall } from "#engine/del/since-call.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import { type AttachmentRecord, addHasEnded, isSame } from "#engine/record/record.ts";

/**
 * Whether a DEL is of an earlier sandbox than the record with its name: its sandbox was detached and
 * attached again since it was called, or it names another namespace. An ADD that did not end was
 * perhaps the one whose end the runtime did not await.
 */
export async function isLate(
  ctx: CallContext,
  { netns }: Pick<DelRequest, "netns">,
  record: AttachmentRecord,
): Promise<boolean> {
  if (!addHasEnded(record)) return false;
  return isMadeSinceCall(ctx, record) || isElsewhere(ctx, netns, record);
}

/**
 * Whether a sandbox certainly runs in another namespace than that at a path: by no path is it this
 * one, and an interface with the recorded name and MAC address is in the recorded one.
 */
async function isElsewhere(
  ctx: CallContext,
  netns: string,
  record: AttachmentRecord,
): Promise<boolean> {
  if (netns === "" || netns === record.netns || isOfProcess(record)) return false;
  const there = await ctx.host.occupants(netns);
  if (there.some((key) => isSame(key, record))) return false;
  try {
    const links = await sandboxLinks(ctx, record.netns);
    if (!record.attachments.some((each) => isPresent(each, links))) return false;
    return await isNetnsOf(ctx, record);
  } catch (error) {
    if (error instanceof HostGoneError) throw error;
    return false;
  }
}
