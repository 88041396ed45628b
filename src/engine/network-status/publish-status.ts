import { parseResult } from "#cni/result/parse.ts";
import { isVisible } from "#engine/add/events.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { readDeviceInfo } from "#engine/plan/devices/device-info.ts";
import type { Attached, PlannedAttachment } from "#engine/plan/planned-attachment.ts";
import { recordedNetwork } from "#engine/plan/recorded-network.ts";
import type { Pod, PublishPause } from "#engine/ports.ts";
import type { AttachmentRecord, RecordKey, StatusPause } from "#engine/record/record.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import {
  buildNetworkStatus,
  formatNetworkStatus,
  type NetworkStatus,
} from "#npwg/network-status.ts";
import { annotationErrorAnnotation, networkStatusAnnotation } from "#npwg/selection/selection.ts";
import { ignoredRequestsKey } from "#npwg/served-requests.ts";
import { isLatest, isSame } from "./latest-sandbox.ts";
import { statusPause } from "./status-pause.ts";

/** Annotations by name, as {@link AttachmentRecord.pendingStatus} keeps them. */
export type PendingStatus = NonNullable<AttachmentRecord["pendingStatus"]>;

/** What a record says of a status that is to be written. */
export type OwedStatus = Pick<AttachmentRecord, "pendingStatus" | "statusPause">;

interface AttachedSandbox {
  readonly record: { readonly sandbox: RecordKey };
  readonly pod: Pod | undefined;
  readonly attached: readonly Attached[];
  readonly annotationError: string | undefined;
}

interface ShownAttachment extends Pick<Attached, "result" | "ignoredRequests"> {
  readonly planned: Omit<PlannedAttachment, "selection">;
  readonly defaultRoute: readonly string[] | undefined;
}

/**
 * Publishes network-status (multi-network v1.1 §5), unless the sandbox is not attached anymore, or
 * the pod has a newer one.
 * @returns what is still to be written, if anything
 * @throws HostGoneError when the shim has gone, CniError when the record cannot be read
 */
export async function publishStatus(
  ctx: CallContext,
  sandbox: AttachedSandbox,
): Promise<OwedStatus | undefined> {
  const annotations = await statusOf(ctx, sandbox);
  if (sandbox.pod === undefined || annotations === undefined) return undefined;
  // Without its shim the ADD has failed, and the pod may have a newer sandbox by now. A process that
  // was stopped learns that from the record first.
  ctx.signal.throwIfAborted();
  const isCurrent = currentDuringAdd(ctx, sandbox.record.sandbox);
  if (!(await isCurrent())) return undefined;
  const owed: { pendingStatus: PendingStatus; statusPause?: StatusPause } = {
    pendingStatus: annotations,
  };
  const onPause = async (paused: PublishPause): Promise<void> => {
    owed.statusPause = statusPause(ctx.deps, paused);
  };
  const options = { isCurrent, onPause };
  const outcome = await ctx.deps.publisher.publish(sandbox.pod, annotations, options);
  return outcome === "pending" ? owed : undefined;
}

/** Whether the sandbox of an ADD is the pod's latest. Until the answer, no record is read for it. */
function currentDuringAdd({ deps, answered }: CallContext, key: RecordKey): () => Promise<boolean> {
  let isAnswered = false;
  void answered.then(() => {
    isAnswered = true;
  });
  return async () => {
    const record = (await deps.records.load(key))?.record;
    if (record === undefined) return false;
    const { pod, teardown } = record;
    const isNewest = pod !== undefined && isSame(deps.records.latestOf(pod), key);
    return !isAnswered && isNewest ? teardown === undefined : isLatest(deps, record);
  };
}

/** The annotations that show a pod's attachments; undefined without a pod. */
export async function statusOf(
  ctx: CallContext,
  { record, pod, attached, annotationError }: AttachedSandbox,
): Promise<PendingStatus | undefined> {
  if (pod === undefined) return undefined;
  const { containerId } = record.sandbox;
  const networks = await Array.fromAsync(attached.filter(isVisible), (each) =>
    networkStatus(ctx, containerId, {
      ...each,
      defaultRoute: each.planned.selection?.defaultRoute,
    }),
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

/** The same of what a record says, after a change of its networks. @throws CniError 6, 7 */
export async function statusOfRecord(
  ctx: CallContext,
  { containerId, attachments }: Pick<AttachmentRecord, "containerId" | "attachments">,
): Promise<PendingStatus> {
  const networks = await Array.fromAsync(attachments, async (recorded) => {
    if (recorded.result === undefined || recorded.state === "detached") return [];
    const planned = recordedNetwork(recorded, ctx.config);
    const { defaultRoute, ignoredRequests = [], addresses = {} } = recorded;
    const result = parseResult(recorded.result, { fallbackVersion: planned.list.cniVersion });
    const shown = { planned, result, defaultRoute, ignoredRequests };
    const statuses = isVisible(shown) ? await networkStatus(ctx, containerId, shown) : [];
    return statuses.map((status) => {
      const ips = addresses[status.interface ?? ""] ?? status.ips;
      return omitUndefined({ ...status, ips });
    });
  });
  return { [networkStatusAnnotation]: formatNetworkStatus(networks.flat()) };
}

async function networkStatus(
  ctx: CallContext,
  containerId: string,
  { planned, result, ignoredRequests, defaultRoute }: ShownAttachment,
): Promise<NetworkStatus[]> {
  const statuses = buildNetworkStatus({
    ...planned,
    result,
    resultVersion: planned.list.cniVersion,
    defaultRoute,
    deviceInfo: await readDeviceInfo(ctx, containerId, planned),
  });
  const ignored = ignoredRequests.length === 0 ? {} : { [ignoredRequestsKey]: ignoredRequests };
  return statuses.map((status, i) => (i === 0 ? { ...status, ...ignored } : status));
}
