import { CniError } from "#cni/error.ts";
import type { AddRequest } from "#cni/plugin/request.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { inSandbox, sandboxLinks } from "#engine/call/sandbox.ts";
import type { SandboxLocks } from "#engine/call/sandbox-locks.ts";
import { detachRecord } from "#engine/del/detach-record.ts";
import { type AttachmentPlan, planAttachments } from "#engine/plan/plan-attachments.ts";
import { resolvePod } from "#engine/plan/pod/pod.ts";
import { checkReadinessFile } from "#engine/plan/readiness.ts";
import { HostGoneError, type Pod } from "#engine/ports.ts";
import { isOfEarlierBoot } from "#engine/record/record.ts";
import type { StoredRecord } from "#engine/record/teardown-plan.ts";
import type { JsonObject } from "#lib/json.ts";
import { AddRecord, sandboxToAdd } from "./add-record.ts";
import { attachNetworks } from "./attach-networks.ts";
import { emitAttachFailed } from "./events.ts";
import { finishAdd } from "./finish-add.ts";
import { rollBack } from "./roll-back.ts";

/**
 * ADD: attaches the default network, then each requested one; after a failure, detaches what was
 * attempted. The record is visible before the first delegate runs, and durable before the answer.
 * @param locks for work after the answer; the caller holds the sandbox's lock
 * @returns the default network's result in the version of the runtime's conf
 * @throws CniError with the failing delegate's code, naming its network
 */
export async function add(
  ctx: CallContext,
  request: AddRequest,
  locks: SandboxLocks,
): Promise<JsonObject> {
  const { records } = ctx.deps;
  if (request.prevResult !== undefined) throw notFirstPlugin();
  await checkReadinessFile(ctx);
  const earlier = await records.load(request);
  if (earlier !== undefined) await detachBeforeReboot(ctx, request, earlier);
  const pod = await ctx.trace.phase("pod", () => resolvePod(ctx, request));
  const { attachments, recordBytes, annotationError } = await plan(ctx, request, pod);
  // Without its shim the call has failed already, and its sandbox may be detached by now.
  ctx.signal.throwIfAborted();
  const record = new AddRecord(ctx, sandboxToAdd(ctx, request, pod), { attachments });
  const { durable } = await ctx.trace.phase("record", () => record.create());
  try {
    const { attached, kernel } = await attachNetworks(ctx, record, { attachments, recordBytes });
    const sandbox = { record, durable, pod, attached, kernel, annotationError };
    return await finishAdd(ctx, sandbox, locks);
  } catch (error) {
    emitAttachFailed(ctx, pod, error);
    if (!(error instanceof HostGoneError)) await rollBack(ctx, record);
    throw error;
  }
}

async function plan(
  ctx: CallContext,
  request: AddRequest,
  pod: Pod | undefined,
): Promise<AttachmentPlan> {
  const { netns } = request;
  const existingInterfaces = async (): Promise<ReadonlySet<string>> => {
    if (ctx.links !== undefined) return ctx.links;
    const links = await inSandbox(netns, () => sandboxLinks(ctx, netns));
    return new Set(links.map(({ name }) => name));
  };
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

/**
 * podman starts a container again after a reboot, and sends no DEL for its earlier attachments.
 * @throws CniError 103 when they are of this boot; as {@link detachRecord}
 */
async function detachBeforeReboot(
  ctx: CallContext,
  request: AddRequest,
  earlier: StoredRecord,
): Promise<void> {
  if (!isOfEarlierBoot(earlier.record, ctx.deps.bootId())) throw alreadyAttached(request);
  await detachRecord(ctx, earlier, { netns: "", path: request.path });
}

function alreadyAttached(request: AddRequest): CniError {
  return new CniError(
    "AlreadyAttached",
    `interface ${request.ifName} of container ${request.containerId} is attached already: ` +
      "the runtime must DEL before it ADDs again",
  );
}
