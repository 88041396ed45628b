import { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { selectedNetwork } from "#engine/plan/requested-networks.ts";
import type { PodIdentity } from "#engine/ports/cluster.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";

/**
 * The interfaces of a sandbox whose definition has changed since an element of the annotation
 * requested them. A definition that is gone or invalid would attach nothing, so it is no change.
 * @throws CniError 11 when a definition cannot be read at the moment
 */
export async function outdatedInterfaces(
  ctx: CallContext,
  { pod, attachments }: Pick<AttachmentRecord, "pod" | "attachments">,
): Promise<string[]> {
  const outdated: string[] = [];
  if (pod === undefined) return outdated;
  for (const each of attachments) {
    if (await isOutdated(ctx, pod, each)) outdated.push(each.ifName);
  }
  return outdated;
}

async function isOutdated(
  ctx: CallContext,
  pod: PodIdentity,
  { displayName, definition, state }: RecordedAttachment,
): Promise<boolean> {
  if (definition === undefined || state !== "attached") return false;
  try {
    // Only the definition itself is compared: requests of the pod do not change it.
    const [namespace = "", name = ""] = displayName.split("/");
    const element = { namespace, name, position: 0 };
    const network = await selectedNetwork(ctx, pod, element);
    return network.definition !== definition;
  } catch (error) {
    if (!(error instanceof CniError) || error.transient) throw error;
    return false;
  }
}
