import { isVisible } from "#engine/add/events.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { readDeviceInfo } from "#engine/plan/devices/device-info.ts";
import type { Attached } from "#engine/plan/planned-attachment.ts";
import type { Pod } from "#engine/ports.ts";
import {
  buildNetworkStatus,
  formatNetworkStatus,
  type NetworkStatus,
} from "#npwg/network-status.ts";
import { annotationErrorAnnotation, networkStatusAnnotation } from "#npwg/selection/selection.ts";
import { ignoredRequestsKey } from "#npwg/served-requests.ts";
import type { PendingStatus } from "./pending-status.ts";

interface AttachedSandbox {
  readonly pod: Pod | undefined;
  readonly attached: readonly Attached[];
  readonly annotationError: string | undefined;
}

/** Publishes network-status (multi-network v1.1 §5). @returns the annotations still to write */
export async function publishStatus(
  ctx: CallContext,
  containerId: string,
  { pod, attached, annotationError }: AttachedSandbox,
): Promise<PendingStatus | undefined> {
  if (pod === undefined) return undefined;
  const statuses: NetworkStatus[] = [];
  for (const attachment of attached.filter(isVisible)) {
    statuses.push(...(await networkStatus(ctx, containerId, attachment)));
  }
  const value = formatNetworkStatus(withAnnotationError(statuses, annotationError));
  const annotations = { [networkStatusAnnotation]: value };
  const outcome = await ctx.deps.publisher.publish(pod, annotations);
  return outcome === "pending" ? annotations : undefined;
}

async function networkStatus(
  ctx: CallContext,
  containerId: string,
  attached: Attached,
): Promise<NetworkStatus[]> {
  const { planned, result, ignoredRequests } = attached;
  const statuses = buildNetworkStatus({
    displayName: planned.displayName,
    isDefault: planned.isDefault,
    ifName: planned.ifName,
    result,
    resultVersion: planned.list.cniVersion,
    defaultRoute: planned.selection?.defaultRoute,
    deviceInfo: await readDeviceInfo(ctx, containerId, planned),
  });
  if (ignoredRequests.length === 0) return statuses;
  return statuses.map((status, i) =>
    i === 0 ? { ...status, [ignoredRequestsKey]: ignoredRequests } : status,
  );
}

/** The default network's entry says why the pod's annotation was ignored. */
function withAnnotationError(
  statuses: readonly NetworkStatus[],
  annotationError: string | undefined,
): NetworkStatus[] {
  if (annotationError === undefined) return [...statuses];
  return statuses.map((status) =>
    status.default ? { ...status, [annotationErrorAnnotation]: annotationError } : status,
  );
}
