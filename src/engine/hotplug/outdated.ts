import { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { selectedNetwork } from "#engine/plan/requested-networks.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";

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
  for (const { displayName, definition, ifName, state } of attachments) {
    if (pod === undefined || definition === undefined || state !== "attached") continue;
    const [namespace = "", name = ""] = displayName.split("/");
    try {
      // Only the definition itself is compared: requests of the pod do not change it.
      const present = await selectedNetwork(ctx, pod, { namespace, name, position: 0 });
      if (present.definition !== definition) outdated.push(ifName);
    } catch (error) {
      if (!(error instanceof CniError) || error.transient) throw error;
    }
  }
  return outdated;
}
