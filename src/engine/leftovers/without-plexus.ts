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
 * @param primary the name of the primary's list; undefined without one
 */
export function isOnPrimaryOnly(record: AttachmentRecord, primary: string | undefined): boolean {
  const { listName, attachments } = record;
  if (primary === undefined || listName !== primary || !isOfKubernetes(record)) return false;
  return attachments.every(({ isDefault, conf }) => isDefault && conf.name === primary);
}

/**
 * What a sandbox needs of Plexus once the runtime uses the primary's list in place of Plexus's:
 * - `nothing`: the primary CNI detaches it, so that its record can be removed. Only pods come to that.
 * - `shim`: nerdctl's lists still call it, and so does CRI-O. What an ADD or DEL has left that did not
 *   succeed may be given up by the runtime.
 * - `plexus`: the primary CNI would get the DEL of a pod that only Plexus can detach.
 * @param node.isCrio see `isCrioRunning`
 */
export function needOf(
  record: AttachmentRecord,
  node: { readonly primary: string | undefined; readonly isCrio: boolean },
): "nothing" | "shim" | "plexus" {
  if (!isOnPrimaryOnly(record, node.primary)) return isOfKubernetes(record) ? "plexus" : "shim";
  return usableRecord(record) && !node.isCrio ? "nothing" : "shim";
}

/** How many sandboxes there are, and the first ten by name; for people. */
export function sandboxNames(records: readonly AttachmentRecord[]): string {
  const names = records.slice(0, 10).map(sandboxName).join(", ");
  const more = records.length > 10 ? ` and ${records.length - 10} more` : "";
  return `${records.length} (${names}${more})`;
}
