import { parseResult } from "#cni/result/parse.ts";
import type { Result } from "#cni/result/result.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import {
  buildNetworkStatus,
  formatNetworkStatus,
  type NetworkStatus,
} from "#npwg/network-status.ts";
import { annotationErrorAnnotation, networkStatusAnnotation } from "#npwg/selection/selection.ts";
import { ignoredRequestsKey } from "#npwg/served-requests.ts";
import { readDeviceInfo } from "./device-info.ts";

/** What a caller knows beside the record. */
export interface KnownBeside {
  /** The results of the attachments, parsed. @default they are parsed again */
  readonly attached?: readonly { readonly result: Result }[];
  /** Why the pod's annotation was ignored: the default network's entry says so. */
  readonly annotationError?: string | undefined;
}

/**
 * The annotations that show a pod what its record says is attached (multi-network v1.1 §5): write
 * them with the attachments, so that no crash loses them. None without a pod.
 * @throws CniError 6 when a recorded result cannot be read
 */
export async function statusOfRecord(
  ctx: CallContext,
  record: Pick<AttachmentRecord, "containerId" | "pod" | "attachments">,
  { attached = [], annotationError }: KnownBeside = {},
): Promise<Pick<AttachmentRecord, "pendingStatus">> {
  const { containerId, attachments } = record;
  if (record.pod === undefined) return {};
  const networks = await Array.fromAsync(attachments, (recorded, position) =>
    entriesOf(ctx, containerId, { recorded, result: attached[position]?.result }),
  );
  const statuses = networks.flat().map((status) => {
    const error = status.default ? annotationError : undefined;
    return omitUndefined({ ...status, [annotationErrorAnnotation]: error });
  });
  return { pendingStatus: { [networkStatusAnnotation]: formatNetworkStatus(statuses) } };
}

async function entriesOf(
  ctx: CallContext,
  containerId: string,
  known: { readonly recorded: RecordedAttachment; readonly result: Result | undefined },
): Promise<NetworkStatus[]> {
  const { recorded } = known;
  if (recorded.result === undefined) return [];
  const { ignoredRequests, addresses = {} } = recorded;
  const fallbackVersion = String(recorded.conf.cniVersion ?? "");
  const result = known.result ?? parseResult(recorded.result, { fallbackVersion });
  const { auxiliaryCNIChainName } = ctx.config;
  const isAuxiliary = !recorded.isDefault && recorded.displayName === auxiliaryCNIChainName;
  if (!isVisible({ planned: { isAuxiliary }, result })) return [];
  const deviceInfo = await readDeviceInfo(ctx, containerId, recorded);
  const outcome = { ...recorded, result, deviceInfo };
  // Pods name interfaces, also as every object's members: constructor.
  const inspected = new Map(Object.entries(addresses));
  return buildNetworkStatus(outcome).map((status, i) => {
    const ips = inspected.get(status.interface ?? "") ?? status.ips;
    const ignored = i === 0 ? ignoredRequests : undefined;
    return omitUndefined({ ...status, ips, [ignoredRequestsKey]: ignored });
  });
}

/** Whether an attachment is shown. Plugins that modify others' interfaces have nothing to show. */
export function isVisible(attached: {
  readonly planned: { readonly isAuxiliary?: boolean };
  readonly result: Result;
}): boolean {
  const { planned, result } = attached;
  return planned.isAuxiliary !== true || result.interfaces.length + result.ips.length > 0;
}
