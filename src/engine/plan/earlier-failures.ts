import { toJson } from "#cni/conf/conf.ts";
import { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { signOfBoot } from "#engine/call/sign-of-boot.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import {
  type AttachmentRecord,
  isOfPod,
  mayRun,
  type RecordedAttachment,
  usableRecord,
} from "#engine/record/record.ts";
import type { PlannedAttachment } from "./planned-attachment.ts";

/** Maximum number of a pod's sandboxes waiting for teardown of a network none was attached to. */
const maxFailures = 4;

/**
 * Refuses an ADD of a network that earlier sandboxes of the pod could in this boot neither be attached
 * to nor detached from. The kubelet creates a new sandbox every few seconds, and each would leave one
 * more record. The next DEL retries one of those teardowns, so the pod starts soon after the cause is
 * fixed. A changed configuration is not refused. Nor may too many of them have been attached without a
 * DEL, as when the plugin that the runtime executes after Plexus's fails. Applies only if calls retry
 * teardowns: otherwise nothing would end the refusal.
 * @throws CniError 11 naming the network and its error
 */
export async function refuseRepeatedFailures(
  { deps }: CallContext,
  { containerId, pod }: { readonly containerId: string; readonly pod: Pod | undefined },
  attachments: readonly PlannedAttachment[],
): Promise<void> {
  if (pod === undefined || deps.leftoverDuty === "none") return;
  const isEarlier = (record: AttachmentRecord): boolean =>
    record.containerId !== containerId &&
    isOfPod(record, pod) &&
    signOfBoot(record, deps) === undefined;
  if (!(await deps.records.known(JSON.stringify(pod.name))).some(isEarlier)) return;
  const earlier = (await deps.records.list()).records.filter(isEarlier);
  if (hasTooMany(earlier.filter(usableRecord))) throw tooManyReplaced();
  const left = earlier
    .filter((each) => !mayRun(each))
    .flatMap((of) => of.attachments.map((each) => ({ ...each, containerId: of.containerId })));
  for (const planned of attachments) {
    const conf = JSON.stringify(toJson(planned.list));
    const failed = left.filter(
      (each) => each.result === undefined && JSON.stringify(each.conf) === conf,
    );
    if (hasTooMany(failed)) throw tooManyFailures(planned, failed);
  }
}

/** Whether they are of too many sandboxes: one has a record for each of the runtime's lists. */
function hasTooMany(of: readonly Pick<AttachmentRecord, "containerId">[]): boolean {
  return new Set(of.map(({ containerId }) => containerId)).size >= maxFailures;
}

/** The runtime has attached each of them, and forgotten it: a plugin after Plexus's fails. */
function tooManyReplaced(): CniError {
  const message =
    `the pod is not attached, as ${maxFailures} of its earlier sandboxes were attached and got no DEL ` +
    "(the container runtime failed after that, perhaps at a plugin that 00-plexus.conflist has after plexus)";
  return new CniError("RepeatedFailures", message);
}

function tooManyFailures(
  { displayName, ifName }: PlannedAttachment,
  failed: readonly RecordedAttachment[],
): CniError {
  const last = failed.findLast(({ failedAdd }) => failedAdd !== undefined)?.failedAdd;
  const why = last === undefined ? "it was interrupted" : last.message;
  const message =
    `network ${displayName} (${ifName}): not attached, as ${maxFailures} earlier sandboxes of the pod failed (${why}) ` +
    "and could not be detached yet; fix the definition, or wait for one of them to be detached";
  return new CniError("RepeatedFailures", message);
}
