import { CniError } from "#cni/error.ts";
import type { AddRequest } from "#cni/plugin/request.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { type AttachmentPlan, planAttachments } from "#engine/plan/plan-attachments.ts";
import { resolvePod } from "#engine/plan/pod/pod.ts";
import { readinessProblem } from "#engine/plan/readiness.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import { HostGoneError } from "#engine/ports/host.ts";
import { nextTurn } from "#lib/concurrency/next-turn.ts";
import type { JsonObject } from "#lib/json.ts";
import { AddRecord, sandboxToAdd } from "./add-record.ts";
import { attachNetworks } from "./attach-networks.ts";
import { keepClusterRoutes } from "./cluster-routes.ts";
import { detachEarlier } from "./earlier-sandbox.ts";
import { emitAttachFailed } from "./events.ts";
import { finishAdd } from "./finish-add.ts";
import { linksOfCall } from "./kernel-interfaces.ts";
import { rollBack } from "./roll-back.ts";

/**
 * ADD: attaches the default network, then each requested one; after a failure, detaches what was
 * attempted. The record is visible before the first delegate runs, and durable before the answer.
 * @returns the default network's result in the version of the runtime's conf
 * @throws CniError with the failing delegate's code, naming its network
 */
export async function add(ctx: CallContext, request: AddRequest): Promise<JsonObject> {
  if (request.prevResult !== undefined) throw notFirstPlugin();
  const notReady = await readinessProblem(ctx);
  if (notReady !== undefined) throw notReady;
  await detachEarlier(ctx, request);
  const pod = await ctx.trace.phase("pod", () => resolvePod(ctx, request));
  const { attachments, recordBytes, annotationError } = await plan(ctx, request, pod);
  // Without its shim the call has failed already, and its sandbox may be detached by now. A process
  // that was stopped meanwhile reads the end of the connection only in the second turn.
  for (let turn = 0; turn < 2; turn++) await nextTurn();
  ctx.signal.throwIfAborted();
  const record = new AddRecord(ctx, sandboxToAdd(ctx, request, pod), { attachments });
  const beforeOthers = () => keepClusterRoutes(ctx, record, pod);
  const networks = { attachments, recordBytes, beforeOthers };
  const { durable } = await ctx.trace.phase("record", () => record.create());
  try {
    const { attached, kernel } = await attachNetworks(ctx, record, networks);
    const sandbox = { record, durable, pod, attached, kernel, annotationError };
    return await finishAdd(ctx, sandbox);
  } catch (error) {
    emitAttachFailed(ctx, pod, error);
    if (error instanceof HostGoneError) throw error;
    ctx.notes.notRolledBack = await rollBack(ctx, record);
    if (pod !== undefined) await ctx.deps.publisher.detached(pod);
    throw error;
  }
}

async function plan(
  ctx: CallContext,
  request: AddRequest,
  pod: Pod | undefined,
): Promise<AttachmentPlan> {
  const existingInterfaces = (): Promise<ReadonlySet<string>> => linksOfCall(ctx, request.netns);
  try {
    const input = { ...request, existingInterfaces };
    return await ctx.trace.phase("resolve", () => planAttachments(ctx, input, pod));
  } catch (error) {
    emitAttachFailed(ctx, pod, error);
    throw error;
  }
}

/** Plexus creates the first interface, so it cannot pass on another result (CNI 1.1.0 §4 "ADD"). */
function notFirstPlugin(): CniError {
  return new CniError(
    "NotFirstPlugin",
    "plexus must be the first plugin of its list: the runtime passed the result of another one (prevResult); " +
      "make that plugin part of the cluster default network instead",
  );
}
