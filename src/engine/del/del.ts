import type { DelRequest } from "#cni/plugin/request.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { podIdentity } from "#engine/call/pod-identity.ts";
import { detachUnrecorded } from "#engine/del/recovery/recover.ts";
import { detachRecord } from "./detach-record.ts";
import { netnsForDel } from "./netns.ts";
import { loadStored } from "./stored.ts";

/**
 * DEL: detaches what the record says, never what the annotation or the definitions say by now; the
 * pod is not resolved.
 * @throws CniError when something could not be detached; it stays recorded and DEL can be repeated
 */
export async function del(ctx: CallContext, request: DelRequest): Promise<void> {
  const record = await ctx.trace.phase("record", () =>
    loadStored(() => ctx.deps.records.load(request)),
  );
  const { path } = request;
  const netns = netnsForDel(ctx, request.netns);
  const { runtimeConfig } = request.conf;
  if (record.state === "usable") await detachRecord(ctx, record.value, { netns, path });
  else {
    const { cniVersion } = request.conf;
    await detachUnrecorded(ctx, { ...request, netns, cniVersion, runtimeConfig }, record);
  }
  const recordedPod = record.state === "usable" ? record.value.pod : undefined;
  await withdrawStatus(ctx, recordedPod ?? podIdentity(request.cniArgs));
}

/** A pod that has another sandbox by now keeps its status: after a reboot the old one is deleted last. */
async function withdrawStatus(
  ctx: CallContext,
  pod: { readonly namespace: string; readonly name: string } | undefined,
): Promise<void> {
  if (pod === undefined) return;
  if (!(await ctx.deps.records.hasPod(pod))) await ctx.deps.publisher.withdraw(pod);
}
