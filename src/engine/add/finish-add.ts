import { formatResult } from "#cni/result/format.ts";
import { applyDefaultRoutes } from "#engine/add/default-route/default-routes.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import type { SandboxLocks } from "#engine/call/sandbox-locks.ts";
import { owedByItsCall } from "#engine/network-status/status-pause.ts";
import {
  type OwedStatus,
  owe,
  pay,
  payAfterAnswer,
  withdrawStatus,
} from "#engine/network-status/status-writer.ts";
import type { Attached } from "#engine/plan/planned-attachment.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import { nextTurn } from "#lib/concurrency/next-turn.ts";
import type { JsonObject } from "#lib/json.ts";
import type { AddRecord } from "./add-record.ts";
import { emitAttached } from "./events.ts";
import type { KernelInterfaces } from "./kernel-interfaces.ts";

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

/** Runs the steps concurrently, the API request first. All have ended before a rollback starts. */
async function recordAndPublish(
  ctx: CallContext,
  sandbox: SandboxToFinish,
  locks: SandboxLocks,
): Promise<void> {
  const { record, pod, attached } = sandbox;
  const { trace, deps, config, signal } = ctx;
  const isFirst = config.publishStatus === "beforeReply";
  record.noteAttached(attached);
  const owing = owe(ctx, record.current, sandbox);
  const pays = async (): Promise<OwedStatus> => {
    const unrecorded = await owing;
    // Without its shim the ADD has failed, and the pod may have a newer sandbox by now. A process
    // that was stopped learns that from the record first.
    signal.throwIfAborted();
    return pod === undefined ? {} : await pay(ctx, record.sandbox, { locks, unrecorded });
  };
  const paid = isFirst ? trace.phase("status", pays) : undefined;
  const updated = trace.phase("record", async () => {
    if (isFirst) await nextTurn();
    const owed = isFirst ? {} : owedByItsCall(deps, await owing);
    record.noteAttached(attached, await sandbox.kernel);
    await record.update(owed);
  });
  const durable = trace.phase("sync", () => sandbox.durable);
  const ended = await Promise.allSettled([updated, paid, durable]);
  const failed = ended.find((each) => each.status === "rejected");
  if (failed !== undefined) {
    if (isFirst) await withdrawStatus(deps, pod, { isAddFailed: true });
    throw failed.reason;
  }
  if (!isFirst) signal.throwIfAborted();
  else if (!(await recordUnpaid(ctx, record, await paid))) return;
  // plexus-standalone pays what records owe after each call.
  if (deps.leftoverDuty === "oneCall") return;
  void payAfterAnswer(ctx, record.sandbox, { locks });
}

/**
 * Records an unpublished status. Never rejects: the pod is attached, and may still get it.
 * @returns whether there is one
 */
async function recordUnpaid(
  ctx: CallContext,
  record: AddRecord,
  owed?: OwedStatus,
): Promise<boolean> {
  if (owed?.pendingStatus === undefined) return false;
  await record
    .update(owed)
    .catch((err: unknown) =>
      ctx.logger.warn({ err }, "cannot record the network-status that is still to be published"),
    );
  return true;
}
