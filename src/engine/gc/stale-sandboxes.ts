import type { CallContext } from "#engine/call/call-context.ts";
import { isCertainlyOver, isNothingAt } from "#engine/del/signs-of-life.ts";
import { isOfKubernetes } from "#engine/leftovers/without-plexus.ts";
import type { DamagedRecord, RecordList } from "#engine/ports/records.ts";
import type { AttachmentRecord } from "#engine/record/record.ts";
import { type RecordKey, recordFileName } from "#lib/files/state-files.ts";

/**
 * The sandboxes that a GC of the list `listName` may detach: no containers that the runtime lists, or
 * that were attached since. The runtime knows only its own containers, but other runtimes
 * may use the node with other lists, or with this one: CRI-O collects every list of its directory
 * and lists no container in the lists that only others use. A sandbox that is not listed is stale if
 * one of these holds:
 * - A call of this list made it, and the runtime lists another sandbox of the list, of the same
 *   kind: a pod of Kubernetes, as CRI-O's, or none.
 * - Nothing is at the path of its namespace, and a call of this list made it, or its list is not
 *   known: the record is damaged, or of an earlier release.
 */
export async function staleSandboxes(
  ctx: CallContext,
  { records, damaged }: RecordList,
  scope: {
    readonly listName: string;
    readonly listed: ReadonlySet<string>;
    readonly attachedSince: ReadonlySet<string>;
  },
): Promise<RecordList> {
  const { listName, listed, attachedSince } = scope;
  const isOwn = (record: AttachmentRecord): boolean => record.listName === listName;
  const isListed = ({ containerId }: RecordKey): boolean =>
    listed.has(containerId) || attachedSince.has(containerId);
  const ofCaller = records.filter((each) => isOwn(each) && listed.has(each.containerId));
  const callerHas = new Set(ofCaller.map(isOfKubernetes));
  const stale = new Set<string>();
  for (const record of records) {
    if (isListed(record) || !(isOwn(record) || record.listName === undefined)) continue;
    const isKnown = isOwn(record) && callerHas.has(isOfKubernetes(record));
    if (isKnown || (await isCertainlyOver(ctx, record))) stale.add(recordFileName(record));
  }
  for (const each of damaged) {
    if (!isListed(each) && (await isOverByPlan(ctx, each))) stale.add(recordFileName(each));
  }
  const isStale = (key: RecordKey): boolean => stale.has(recordFileName(key));
  return { records: records.filter(isStale), damaged: damaged.filter(isStale) };
}

/** False without a usable plan: nothing says where the namespace is. */
async function isOverByPlan(ctx: CallContext, { plan }: DamagedRecord): Promise<boolean> {
  return plan !== undefined && isNothingAt(ctx, plan.steps[0]?.call.env.CNI_NETNS ?? "");
}
