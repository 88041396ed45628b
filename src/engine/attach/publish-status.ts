import type { CallContext } from "#engine/deps.ts";
import type { Attached } from "#engine/planned-attachment.ts";
import type { Pod } from "#engine/ports.ts";
import type { AttachmentRecord } from "#engine/record.ts";
import type { JsonObject } from "#lib/json.ts";
import { cniDeviceInfoPath, dpDeviceInfoPath, parseDeviceInfo } from "#npwg/device-info.ts";
import {
  buildNetworkStatus,
  formatNetworkStatus,
  type NetworkStatus,
} from "#npwg/network-status.ts";
import { annotationErrorAnnotation, networkStatusAnnotation } from "#npwg/selection/selection.ts";

/** Publishes what came of the attachments as the pod's network-status (multi-network specification v1.1 §5). */
export async function publishStatus(
  ctx: CallContext,
  done: {
    readonly record: AttachmentRecord;
    readonly pod: Pod | undefined;
    readonly attached: readonly Attached[];
    readonly annotationError: string | undefined;
  },
): Promise<void> {
  if (done.pod === undefined) return;
  const statuses: NetworkStatus[] = [];
  for (const attached of done.attached) {
    statuses.push(...(await statusOf(ctx, done.record.containerId, attached)));
  }
  const value = formatNetworkStatus(withAnnotationError(statuses, done.annotationError));
  await ctx.deps.publisher.publish(done.pod, { [networkStatusAnnotation]: value });
}

/** Tells the pod's owner of each interface, in the words that Multus's users look for. */
export function tellAdded(
  ctx: CallContext,
  pod: Pod | undefined,
  attached: readonly Attached[],
): void {
  if (pod === undefined) return;
  for (const { planned, result } of attached) {
    const addresses = result.ips.map((ip) => ip.address).join(" ");
    const message = `Add ${planned.ifName} [${addresses}] from ${planned.displayName}`;
    ctx.deps.events.record(pod, { type: "Normal", reason: "AddedInterface", message });
  }
}

async function statusOf(
  ctx: CallContext,
  containerId: string,
  attached: Attached,
): Promise<NetworkStatus[]> {
  const { planned, result } = attached;
  return buildNetworkStatus({
    displayName: planned.displayName,
    isDefault: planned.isDefault,
    ifName: planned.ifName,
    result,
    resultVersion: planned.list.cniVersion,
    defaultRoute: planned.selection?.defaultRoute,
    deviceInfo: await deviceInfo(ctx, containerId, attached),
  });
}

/** What the attachment's plugins or the device plugin tell of its device; a bad file is no reason to fail a pod. */
async function deviceInfo(
  ctx: CallContext,
  containerId: string,
  { planned }: Attached,
): Promise<JsonObject | undefined> {
  const { displayName, ifName, resourceName } = planned;
  const deviceId = planned.selection?.deviceId;
  if (deviceId === undefined || resourceName === undefined) return undefined;
  const places = [
    () => cniDeviceInfoPath({ displayName, containerId, ifName }),
    () => dpDeviceInfoPath({ resourceName, deviceId }),
  ];
  for (const place of places) {
    try {
      const path = place();
      const text = await ctx.deps.deviceInfo.read(path);
      if (text !== undefined) return parseDeviceInfo(text, path);
    } catch (error) {
      ctx.logger.warn({ err: error }, "the device information is left out of the status");
    }
  }
  return undefined;
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
