import { isDeepStrictEqual } from "node:util";
import { toJson } from "#cni/conf/conf.ts";
import { CniError, CniErrorCode } from "#cni/error.ts";
import type { CallContext } from "#engine/call/deps.ts";
import { withDevice } from "#engine/plan/devices/assign-devices.ts";
import { selectedNetwork } from "#engine/plan/requested-networks.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import type { NetworkSelection } from "#npwg/selection/network-selection.ts";

/**
 * The interfaces of a sandbox whose definition has changed since they were attached: plugged anew,
 * they would get another configuration. Only where the record has the element: others cannot be
 * plugged anew. A definition that is gone or invalid would attach nothing, so it is no change.
 * @throws CniError 11 when a definition cannot be read at the moment
 */
export async function outdatedInterfaces(
  ctx: CallContext,
  { pod, attachments }: Pick<AttachmentRecord, "pod" | "attachments">,
): Promise<string[]> {
  const outdated: string[] = [];
  for (const each of attachments) {
    const { selection, state, ifName } = each;
    if (pod === undefined || selection === undefined || state !== "attached") continue;
    if (await isOutdated(ctx, pod, each)) outdated.push(ifName);
  }
  return outdated;
}

async function isOutdated(
  ctx: CallContext,
  pod: NonNullable<AttachmentRecord["pod"]>,
  { selection, device, conf }: RecordedAttachment,
): Promise<boolean> {
  try {
    // The element as it was read at the ADD; its position only matters for messages.
    const element = { ...selection, position: 0 } as unknown as NetworkSelection;
    const { list } = await selectedNetwork({ ...ctx, unlimited: true }, pod, element);
    const now = device === undefined ? list : withDevice(list, device.id);
    return !isDeepStrictEqual(toJson(now), conf);
  } catch (error) {
    const isKnown = error instanceof CniError && error.code !== CniErrorCode.TryAgainLater;
    if (!isKnown) throw error;
    return false;
  }
}
