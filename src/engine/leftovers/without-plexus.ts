import { type AttachmentRecord, sandboxName, usableRecord } from "#engine/record/record.ts";

/**
 * Whether a runtime of Kubernetes attached a sandbox: these always name it in CNI_ARGS. nerdctl and
 * cnitool do not, although the caller's CNI_ARGS may name a pod.
 */
export function isOfKubernetes({ containerId, attachments: [first] }: AttachmentRecord): boolean {
  return new Map(first?.cniArgs).get("K8S_POD_INFRA_CONTAINER_ID") === containerId;
}

/**
 * Whether a sandbox is a pod's with the primary CNI's network only, as if the runtime had used the
 * primary's list. A pod may have chosen another default network. Without the list's name, the
 * runtime does not find the result of the ADD for the DEL.
 * @param primary the name of the primary's list
 */
export function isOnPrimaryOnly(record: AttachmentRecord, primary: string): boolean {
  const { listName, attachments } = record;
  if (!isOfKubernetes(record) || listName !== primary) return false;
  return attachments.every(({ isDefault, conf }) => isDefault && conf.name === primary);
}

/**
 * Whether the primary CNI detaches a sandbox once the runtime uses its list in place of Plexus's, so
 * that its record can be removed. Only pods come to that: nerdctl's lists still call Plexus. What an
 * ADD or DEL has left that did not succeed may be given up by the runtime. CRI-O is an exception, see
 * `isCrioRunning`.
 */
export function isDetachedByPrimary(record: AttachmentRecord, primary: string): boolean {
  return usableRecord(record) && isOnPrimaryOnly(record, primary);
}

/** Whether only Plexus can detach a pod's sandbox, although the primary CNI would get its DEL. */
export function isLostWithoutPlexus(record: AttachmentRecord, primary: string): boolean {
  return isOfKubernetes(record) && !isOnPrimaryOnly(record, primary);
}

/** How many sandboxes there are, and the first ten by name; for people. */
export function sandboxNames(records: readonly AttachmentRecord[]): string {
  const names = records.slice(0, 10).map(sandboxName).join(", ");
  const more = records.length > 10 ? ` and ${records.length - 10} more` : "";
  return `${records.length} (${names}${more})`;
}
