import { asCniError, type CniError } from "#cni/error.ts";
import type { DelRequest } from "#cni/plugin/request.ts";
import type { CallContext } from "#engine/deps.ts";
import { podIdentity } from "#engine/plan/pod.ts";
import type { AttachmentRecord } from "#engine/record.ts";
import { detachRecord } from "./detach.ts";
import { detachUnrecorded } from "./recover.ts";

/**
 * DEL: detaches what the record says, never what annotation or definition say today; no pod is
 * asked for.
 * @throws CniError when something could not be detached; it stays recorded and can be tried again
 */
export async function del(ctx: CallContext, request: DelRequest): Promise<void> {
  const { record, problem } = await ctx.trace.phase("record", () => loadRecord(ctx, request));
  if (record === undefined) await detachUnrecorded(ctx, request, problem);
  else await detachRecord(ctx, record, request.netns);
  await withdrawStatus(ctx, record?.pod ?? podIdentity(request.cniArgs));
}

async function loadRecord(
  ctx: CallContext,
  request: DelRequest,
): Promise<{ record?: AttachmentRecord | undefined; problem?: CniError }> {
  try {
    return { record: await ctx.deps.records.load(request) };
  } catch (error) {
    return { problem: asCniError(error) };
  }
}

/** A pod that has got another sandbox meanwhile keeps its status: after a reboot the old one is deleted last. */
async function withdrawStatus(
  ctx: CallContext,
  pod: { readonly namespace: string; readonly name: string } | undefined,
): Promise<void> {
  if (pod === undefined) return;
  if (!(await ctx.deps.records.hasPod(pod))) await ctx.deps.publisher.withdraw(pod);
}
