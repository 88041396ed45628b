import type { CallContext } from "#engine/call/call-context.ts";
import { asksForNetworks } from "#engine/check/not-attached.ts";
import { isAuxiliary } from "#engine/plan/recorded-network.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";

/**
 * Whether a pod with these networks gets a status and an event (`statusOf`). With `requested`, not
 * if it has only the cluster's default network and asked for nothing: the API shows its addresses in
 * `podIPs`. A pod that shows a status gets one in any case, because it must not become outdated.
 */
export function wantsStatus(
  { config }: Pick<CallContext, "config">,
  pod: Pick<Pod, "annotations"> | undefined,
  networks: readonly Pick<RecordedAttachment, "isDefault" | "displayName">[],
): boolean {
  if (config.statusOf === "all") return true;
  if (networks.some((each) => !each.isDefault && !isAuxiliary(each, config))) return true;
  return pod !== undefined && (asksForNetworks(pod) || networkStatusAnnotation in pod.annotations);
}
