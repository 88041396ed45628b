import { isVisible } from "#engine/add/events.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { readDeviceInfo } from "#engine/plan/devices/device-info.ts";
import type { Attached } from "#engine/plan/planned-attachment.ts";
import type { Pod } from "#engine/ports.ts";
import type { RecordKey } from "#engine/record/record.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import {
  buildNetworkStatus,
  formatNetworkStatus,
  type NetworkStatus,
} from "#npwg/network-status.ts";
import { annotationErrorAnnotation, networkStatusAnnotation } from "#npwg/selection/selection.ts";
import { ignoredRequestsKey } from "#npwg/served-requests.ts";
import type { PendingStatus } from "./pending-status.ts";

interface AttachedSandbox {
  readonly record: { readonly sandbox: RecordKey };
  readonly pod: Pod | undefined;
  readonly attached: readonly Attached[];
  readonly annotationError: string | undefined;
}

/**
 * Publishes network-status (multi-network v1.1 §5), unless the sandbox is not attached anymore.
 * @returns the annotations still to write
 * @throws HostGoneError when the shim has gone, CniError when the record cannot be read
 */
export async function publishStatus(
  ctx: CallContext,
  sandbox: AttachedSandbox,
): Promise<PendingStatus | undefined> {
  const annotations = await statusOf(ctx, sandbox);
  if (sandbox.pod === undefined || annotations === undefined) return undefined;
  // Without its shim the ADD has failed, and the pod may have a newer sandbox by now. A process that
  // was stopped learns that from the record first.
  ctx.signal.throwIfAborted();
  const stored = await ctx.deps.records.load(sandbox.record.sandbox);
  if (stored === undefined || stored.record.teardown !== undefined) return undefined;
  const outcome = await ctx.deps.publisher.publish(sandbox.pod, annotations);
  return outcome === "pending" ? annotations : undefined;
}

/** The annotations that show a pod's attachments; undefined without a pod. */
export async function statusOf(
  ctx: CallContext,
  { record, pod, attached, annotationError }: AttachedSandbox,
): Promise<PendingStatus | undefined> {
  if (pod === undefined) return undefined;
  const { containerId } = record.sandbox;
  const networks = await Array.fromAsync(attached.filter(isVisible), (each) =>
    networkStatus(ctx, containerId, each),
  );
  // The default network's entry says why the pod's annotation was ignored.
  const statuses = networks
    .flat()
    .map((status) =>
      status.default
        ? omitUndefined({ ...status, [annotationErrorAnnotation]: annotationError })
        : status,
    );
  return { [networkStatusAnnotation]: formatNetworkStatus(statuses) };
}

async function networkStatus(
  ctx: CallContext,
  containerId: string,
  { planned, result, ignoredRequests }: Attached,
): Promise<NetworkStatus[]> {
  const statuses = buildNetworkStatus({
    ...planned,
    result,
    resultVersion: planned.list.cniVersion,
    defaultRoute: planned.selection?.defaultRoute,
    deviceInfo: await readDeviceInfo(ctx, containerId, planned),
  });
  const ignored = ignoredRequests.length === 0 ? {} : { [ignoredRequestsKey]: ignoredRequests };
  return statuses.map((status, i) => (i === 0 ? { ...status, ...ignored } : status));
}
