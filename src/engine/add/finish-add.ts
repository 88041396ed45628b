import { CniError, CniErrorCode } from "#cni/error.ts";
import { formatResult } from "#cni/result/format.ts";
import { applyDefaultRoutes } from "#engine/add/default-route/default-routes.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { recordPendingStatus } from "#engine/network-status/pending-status.ts";
import { type AttachedSandbox, publishStatus } from "#engine/network-status/publish-status.ts";
import type { Attached } from "#engine/plan/planned-attachment.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { updateRecord } from "#engine/record/update-record.ts";
import type { JsonObject } from "#lib/json.ts";
import { withProgress } from "./attachment-record.ts";
import { emitAddedInterfaces, emitIgnoredRequests } from "./events.ts";
import type { KernelInterfaces } from "./kernel-interfaces.ts";

/** The networks of an ADD, all attached. */
interface SandboxToFinish extends AttachedSandbox {
  /** Resolves when no power loss can take the record away. */
  readonly durable: Promise<void>;
  readonly kernel: KernelInterfaces;
}

/**
 * Finishes an ADD whose networks are all attached: sets the default route, records the results,
 * and publishes network-status.
 * @returns the default network's result in the version of the runtime's conf
 * @throws CniError when one of these steps fails; nothing is published then
 */
export async function finishAdd(ctx: CallContext, sandbox: SandboxToFinish): Promise<JsonObject> {
  const attached = await ctx.trace.phase("route", () =>
    applyDefaultRoutes(ctx, sandbox.record.netns, sandbox.attached),
  );
  const result = defaultNetworkResult(attached, sandbox.record.cniVersion);
  await recordAndPublish(ctx, { ...sandbox, attached });
  emitAddedInterfaces(ctx, sandbox.pod, attached);
  emitIgnoredRequests(ctx, sandbox.pod, attached);
  return result;
}

/**
 * Updates the record while the status is published and what was created becomes durable: none has to wait
 * for the others, and the request to the API goes out first. When one fails, all have ended before the rollback starts. A status that could not be written
 * goes into the record.
 */
async function recordAndPublish(ctx: CallContext, sandbox: SandboxToFinish): Promise<void> {
  const published = ctx.trace.phase("status", () => publishStatus(ctx, sandbox));
  const updated = new Promise(setImmediate).then(() =>
    ctx.trace.phase("record", () => recordResults(ctx, sandbox)),
  );
  const durable = ctx.trace.phase("sync", () => sandbox.durable);
  const ended = await Promise.allSettled([updated, published, durable]);
  const failed = ended.find((each) => each.status === "rejected");
  if (failed === undefined) return recordPendingStatus(ctx, await updated, await published);
  if (sandbox.pod !== undefined) await ctx.deps.publisher.withdraw(sandbox.pod);
  throw failed.reason;
}

async function recordResults(
  ctx: CallContext,
  { record, attached: results, kernel }: SandboxToFinish,
): Promise<AttachmentRecord> {
  const attached: Attached[] = [];
  for (const each of results)
    attached.push({ ...each, userSpaceInterfaces: await kernel.missingOf(each.result) });
  const updated = withProgress(record, { attached, attempted: attached.length });
  await updateRecord(ctx, updated);
  return updated;
}

function defaultNetworkResult(attached: readonly Attached[], version: string): JsonObject {
  const main = attached.find((each) => each.planned.isDefault) ?? attached[0];
  if (main === undefined) {
    throw new CniError(CniErrorCode.Internal, "no network was attached");
  }
  return formatResult(main.result, version);
}
