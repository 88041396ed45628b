import type { IsOpen } from "#engine/explain/call-history.ts";
import type { Failure } from "#engine/explain/explain-error.ts";
import type { CalledPod, Pod } from "#engine/ports/cluster.ts";
import { isOf } from "#engine/ports/pod-identity.ts";
import { type AttachmentRecord, calledUid, usableRecord } from "#engine/record/record.ts";
import { isJsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { reasonRows } from "#lib/reasons.ts";

export const failedAddPage = "failed-add";
export const maxFailedAddBytes = 64 * 1024;

/**
 * Whether a failed ADD still matters: not of a pod that is gone, where plexusd watches pods, nor of one
 * that plexus-standalone has attached since. An earlier sandbox of the pod may have a record, too.
 */
export function isStillOpen(
  records: readonly AttachmentRecord[],
  pods: readonly Pod[] | undefined,
): IsOpen {
  const attached = records.filter(usableRecord).flatMap((record) => {
    const { pod, createdAt } = record;
    return pod === undefined ? [] : { createdAt, ...pod, uid: calledUid(record) ?? pod.uid };
  });
  return (pod, began) =>
    (pods?.some((each) => isOf(pod, each)) ?? true) &&
    !attached.some((each) => isOf(pod, each) && each.createdAt > began);
}

/** Reads what plexus-standalone, perhaps of another release, reports. @throws Error for other JSON */
export function parseFailedAdd(body: string): Failure & Pick<CalledPod, "uid"> {
  const sent: unknown = JSON.parse(body);
  if (!isJsonObject(sent) || typeof sent.message !== "string")
    throw new Error("a failed ADD needs a message");
  const { message, code, subject, uid } = sent;
  return omitUndefined({
    message,
    code: typeof code === "number" ? code : undefined,
    subject: typeof subject === "string" ? subject : undefined,
    uid: typeof uid === "string" ? uid : undefined,
    reason: reasonRows().find(([name]) => name === sent.reason)?.[0],
  });
}
