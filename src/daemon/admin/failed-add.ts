import type { Failure } from "#engine/explain/explain-error.ts";
import type { PodName } from "#engine/ports/cluster.ts";
import { type AttachmentRecord, sandboxName, usableRecord } from "#engine/record/record.ts";
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
  pods: readonly PodName[] | undefined,
): (pod: string, failedAt: string) => boolean {
  const present = pods?.map(({ namespace, name }) => `${namespace}/${name}`);
  const attached = records.filter(usableRecord);
  return (pod, failedAt) =>
    (present?.includes(pod) ?? true) &&
    !attached.some((each) => sandboxName(each) === pod && each.createdAt > failedAt);
}

/** Reads what plexus-standalone, perhaps of another release, reports. @throws Error for other JSON */
export function parseFailedAdd(body: string): Failure {
  const sent: unknown = JSON.parse(body);
  if (!isJsonObject(sent) || typeof sent.message !== "string")
    throw new Error("a failed ADD needs a message");
  const { message, code, subject } = sent;
  return omitUndefined({
    message,
    code: typeof code === "number" ? code : undefined,
    subject: typeof subject === "string" ? subject : undefined,
    reason: reasonRows().find(([name]) => name === sent.reason)?.[0],
  });
}
