import { CniError } from "#cni/error.ts";
import { formatResult } from "#cni/result/format.ts";
import { applyDefaultRoutes } from "#engine/add/default-route/default-routes.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { asksForNetworks } from "#engine/check/not-attached.ts";
import { statusOfRecord } from "#engine/network-status/status-of-record.ts";
import { type Pod, type StatusFailure, statusFailure } from "#engine/ports/cluster.ts";
import type { JsonObject } from "#lib/json.ts";
import type { AddRecord, Attached } from "./add-record.ts";
import { emitAttached, emitStatusLate } from "./events.ts";
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
 * Sets the default route, records the results and shows the pod its status (`publishStatus`).
 * @returns the default network's result in the version of the runtime's conf
 * @throws CniError when one of these steps fails; nothing is published then
 */
export async function finishAdd(ctx: CallContext, sandbox: SandboxToFinish): Promise<JsonObject> {
  const { netns, cniVersion } = sandbox.record.sandbox;
  const attached = await ctx.trace.phase("route", () =>
    applyDefaultRoutes(ctx, netns, sandbox.attached),
  );
  // The default network is always the first.
  const result = formatResult((attached[0] as Attached).result, cniVersion);
  await recordAndShow(ctx, { ...sandbox, attached });
  void ctx.answered.then(() => emitAttached(ctx, sandbox.pod, attached));
  return result;
}

/**
 * Records the results. Then the last sync runs beside the write of the status, for which a pod that
 * requests networks waits: who reads the status, such as an enforcer of network policies, may do so
 * when its containers start. All have ended before a rollback starts.
 */
async function recordAndShow(ctx: CallContext, sandbox: SandboxToFinish): Promise<void> {
  const { record, pod, attached } = sandbox;
  const { trace, deps, config, signal } = ctx;
  record.noteAttached(attached, await sandbox.kernel);
  const status = await statusOfRecord(ctx, record.current, sandbox);
  // Without its shim the ADD has failed. A process that was stopped learns that first.
  signal.throwIfAborted();
  await trace.phase("record", () => record.update(status));
  const isShown = pod !== undefined && status.pendingStatus !== undefined;
  const waits = isShown && config.publishStatus !== "afterReply" && asksForNetworks(pod);
  const [synced, shown] = await Promise.allSettled([
    trace.phase("sync", () => sandbox.durable),
    waits
      ? trace.phase("status", () => deps.publisher.shown(pod, signal, record.sandbox))
      : undefined,
  ]);
  if (synced.status === "rejected") throw synced.reason;
  signal.throwIfAborted();
  const failure = shown.status === "fulfilled" ? shown.value : statusFailure(shown.reason);
  if (failure !== undefined && config.publishStatus === "required") throw notShown(failure);
  void ctx.answered.then(() => {
    if (isShown && !waits) deps.publisher.changed(pod);
    if (isShown && failure !== undefined) emitStatusLate(ctx, pod, failure);
  });
}

function notShown({ message }: StatusFailure): CniError {
  const text = `network-status could not be written, and publishStatus is "required": ${message}`;
  return new CniError("StatusNotWritten", text);
}
