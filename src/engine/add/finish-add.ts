import { formatResult } from "#cni/result/format.ts";
import { applyDefaultRoutes } from "#engine/add/default-route/default-routes.ts";
import type { CallContext } from "#engine/call/deps.ts";
import type { SandboxLocks } from "#engine/call/sandbox-locks.ts";
import { payAfterAnswer } from "#engine/network-status/pending-status.ts";
import { type OwedStatus, publishStatus, statusOf } from "#engine/network-status/publish-status.ts";
import type { Attached } from "#engine/plan/planned-attachment.ts";
import type { Pod } from "#engine/ports.ts";
import { nextTurn } from "#lib/concurrency/next-turn.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { AddRecord } from "./add-record.ts";
import { emitAttached } from "./events.ts";
import { type KernelInterfaces, missingInterfaces } from "./kernel-interfaces.ts";

interface SandboxToFinish {
  readonly record: AddRecord;
  /** Resolves when the record survives a power loss. */
  readonly durable: Promise<void>;
  readonly pod: Pod | undefined;
  readonly attached: readonly Attached[];
  readonly kernel: Promise<KernelInterfaces>;
  readonly annotationError: string | undefined;
}

/**
 * Sets the default route, records the results and publishes network-status of attached networks,
 * before or after the answer (`publishStatus`).
 * @returns the default network's result in the version of the runtime's conf
 * @throws CniError when one of these steps fails; nothing is published then
 */
export async function finishAdd(
  ctx: CallContext,
  sandbox: SandboxToFinish,
  locks: SandboxLocks,
): Promise<JsonObject> {
  const { netns, cniVersion } = sandbox.record.sandbox;
  const attached = await ctx.trace.phase("route", () =>
    applyDefaultRoutes(ctx, netns, sandbox.attached),
  );
  // The default network is always the first.
  const result = formatResult((attached[0] as Attached).result, cniVersion);
  await recordAndPublish(ctx, { ...sandbox, attached }, locks);
  void ctx.answered.then(() => emitAttached(ctx, sandbox.pod, attached));
  return result;
}

function isPublishedFirst({ config }: CallContext): boolean {
  return config.publishStatus === "beforeReply";
}

/** Runs the steps concurrently, the API request first. All have ended before a rollback starts. */
async function recordAndPublish(
  ctx: CallContext,
  sandbox: SandboxToFinish,
  locks: SandboxLocks,
): Promise<void> {
  const { record, pod } = sandbox;
  const { trace, deps } = ctx;
  const isFirst = isPublishedFirst(ctx);
  const published = isFirst ? trace.phase("status", () => publishStatus(ctx, sandbox)) : undefined;
  const updated = trace.phase("record", () => recordResults(ctx, sandbox));
  const durable = trace.phase("sync", () => sandbox.durable);
  const ended = await Promise.allSettled([updated, published, durable]);
  const failed = ended.find((each) => each.status === "rejected");
  if (failed !== undefined) {
    if (isFirst && pod !== undefined) await deps.publisher.withdraw(pod);
    throw failed.reason;
  }
  if (isFirst) return recordPendingStatus(ctx, record, await published);
  // Without its shim the ADD has failed, and the pod may have a newer sandbox by now.
  ctx.signal.throwIfAborted();
  void payAfterAnswer(ctx, record.sandbox, { locks });
}

/** Records the results, and the status that is owed, unless it is published already. */
async function recordResults(ctx: CallContext, sandbox: SandboxToFinish): Promise<void> {
  const { record, attached, kernel } = sandbox;
  if (isPublishedFirst(ctx)) await nextTurn();
  const present = await kernel;
  for (const [position, each] of attached.entries()) {
    const userSpaceInterfaces = missingInterfaces(each.result, present);
    record.noteAttached(position, { ...each, userSpaceInterfaces });
  }
  const pendingStatus = isPublishedFirst(ctx) ? undefined : await statusOf(ctx, sandbox);
  await record.update(omitUndefined({ pendingStatus }));
}

/** Records an unpublished status. Never rejects: the pod is attached, and may still get it. */
async function recordPendingStatus(
  ctx: CallContext,
  record: AddRecord,
  owed: OwedStatus | undefined,
): Promise<void> {
  if (owed === undefined) return;
  try {
    await record.update(owed);
  } catch (error) {
    ctx.logger.warn(
      { err: error },
      "cannot record the network-status that is still to be published",
    );
  }
}
