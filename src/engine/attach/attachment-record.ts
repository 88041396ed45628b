import { toJson } from "#cni/conf/conf.ts";
import type { AddRequest } from "#cni/plugin/request.ts";
import type { CallContext } from "#engine/deps.ts";
import type { Attached, PlannedAttachment } from "#engine/planned-attachment.ts";
import type { Pod } from "#engine/ports.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/** The record of an ADD before any of its networks is attached. */
export function newRecord(
  ctx: CallContext,
  request: AddRequest,
  planned: { readonly pod: Pod | undefined; readonly attachments: readonly PlannedAttachment[] },
): AttachmentRecord {
  const { pod, attachments } = planned;
  return omitUndefined({
    containerId: request.containerId,
    ifName: request.ifName,
    netns: request.netns,
    cniVersion: request.conf.cniVersion,
    pod: pod && { namespace: pod.namespace, name: pod.name, uid: pod.uid },
    createdAt: ctx.deps.now(),
    attachments: attachments.map(recordedAttachment),
  });
}

/** The record with the results of the attachments that succeeded, which are the first ones. */
export function withResults(
  record: AttachmentRecord,
  attached: readonly Attached[],
): AttachmentRecord {
  const attachments = record.attachments.map((attachment, i) =>
    omitUndefined({ ...attachment, result: attached[i]?.raw ?? attachment.result }),
  );
  return { ...record, attachments };
}

function recordedAttachment(planned: PlannedAttachment): RecordedAttachment {
  return omitUndefined({
    displayName: planned.displayName,
    isDefault: planned.isDefault,
    ifName: planned.ifName,
    conf: toJson(planned.list),
    cniArgs: planned.cniArgs,
    capabilityArgs: planned.capabilityArgs,
    searchPath: planned.searchPath,
    defaultRoute: planned.selection?.defaultRoute,
  });
}
