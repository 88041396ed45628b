import type { DelRequest } from "#cni/plugin/request.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { netnsForDel } from "#engine/del/chain/netns.ts";
import { podIdentity } from "#engine/ports/pod-identity.ts";
import { detachRecord } from "./detach-record.ts";
import { isLate } from "./late.ts";
import { detachUnrecorded } from "./recovery/recover.ts";
import { loadStored } from "./stored.ts";

/**
 * DEL: detaches what the record says; does not look at the pod or at current definitions.
 * One that is late leaves the sandbox that has been attached since.
 * @throws CniError when something could not be detached; it stays recorded and DEL can be repeated
 */
export async function del(ctx: CallContext, request: DelRequest): Promise<"detached" | "late"> {
  const { path, conf, cniArgs } = request;
  const stored = await ctx.trace.phase("record", () => loadStored(ctx.deps.records, request));
  const record = stored.state === "usable" ? stored.value.record : undefined;
  if (record !== undefined && (await isLate(ctx, request, record))) {
    ctx.notes.hadNothing = true;
    ctx.logger.debug({}, "the DEL is of a sandbox that is gone: it was attached again since");
    return "late";
  }
  const netns = await netnsForDel(ctx, request, record);
  if (stored.state === "usable") await detachRecord(ctx, stored.value, { netns, path });
  else {
    const { name: listName, cniVersion, runtimeConfig } = conf;
    const sandbox = { ...request, netns, listName, cniVersion, runtimeConfig };
    const damaged = stored.state === "damaged" ? stored.record : undefined;
    ctx.notes.hadNothing = !(await detachUnrecorded(ctx, sandbox, damaged));
  }
  const pod = record?.pod ?? podIdentity(cniArgs);
  if (pod !== undefined) await ctx.deps.publisher.detached(pod);
  return "detached";
}
