import { toJson } from "#cni/conf/conf.ts";
import type { AddRequest } from "#cni/plugin/request.ts";
import type { CallContext } from "#engine/call/deps.ts";
import type { Attached, PlannedAttachment } from "#engine/plan/planned-attachment.ts";
import type { Pod } from "#engine/ports.ts";
import type { AttachmentRecord, FailedAdd, RecordedAttachment } from "#engine/record/record.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/** The record of an ADD whose first network is about to be attached. */
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
    bootId: ctx.deps.bootId(),
    attachments: attachments.map((planned, i) =>
      recordedAttachment(planned, i === 0 ? "attempted" : "planned"),
    ),
  });
}

/** How far an ADD has come: networks are attached in order. */
export interface AttachProgress {
  /** The results so far, from the first network on. */
  readonly attached: readonly Attached[];
  /** How many networks, from the first, may have had a delegate executed. */
  readonly attempted: number;
  /** How a plugin of the network after those that are attached ended its ADD; absent where that is not known. */
  readonly failedAdd?: FailedAdd;
}

/** The record of an ADD that has come so far. */
export function withProgress(
  record: AttachmentRecord,
  { attached, attempted, failedAdd }: AttachProgress,
): AttachmentRecord {
  const attachments = record.attachments.map((attachment, i): RecordedAttachment => {
    const done = attached[i];
    if (done !== undefined) return { ...attachment, state: "attached", ...outcomeOf(done) };
    if (i >= attempted) return { ...attachment, state: "planned" };
    const ending = i === attached.length && failedAdd !== undefined ? { failedAdd } : {};
    return { ...attachment, state: "attempted", ...ending };
  });
  return { ...record, attachments };
}

function outcomeOf({
  raw: result,
  ignoredRequests,
  userSpaceInterfaces = [],
}: Attached): Pick<RecordedAttachment, "result" | "ignoredRequests" | "userSpaceInterfaces"> {
  return {
    result,
    ...(ignoredRequests.length === 0 ? {} : { ignoredRequests }),
    ...(userSpaceInterfaces.length === 0 ? {} : { userSpaceInterfaces }),
  };
}

function recordedAttachment(
  planned: PlannedAttachment,
  state: "planned" | "attempted",
): RecordedAttachment {
  return omitUndefined({
    displayName: planned.displayName,
    isDefault: planned.isDefault,
    ifName: planned.ifName,
    state,
    conf: toJson(planned.list),
    cniArgs: planned.cniArgs,
    capabilityArgs: planned.capabilityArgs,
    searchPath: planned.searchPath,
    device: planned.device,
    defaultRoute: planned.selection?.defaultRoute,
  });
}
