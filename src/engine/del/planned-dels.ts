import { delCallsOfStored } from "#cni/runtime/chain.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { runtimeConf } from "#cni/runtime/delegate-calls.ts";
import { ipamCallAfter } from "#cni/runtime/ipam.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import { recordedList } from "#engine/record/recorded-conf.ts";
import type { StoredRecord, TeardownPlan } from "#engine/record/teardown-plan.ts";
import { objectOf } from "#lib/json.ts";
import { parseJsonText } from "#lib/parsing/json-text.ts";

/** A record without its attachments. */
export type RecordedSandbox = Omit<AttachmentRecord, "attachments">;

/** An attachment, as the record keeps it, with its DELs, as the teardown plan keeps them. */
export interface DetachableAttachment {
  readonly attachment: RecordedAttachment;
  readonly dels: readonly DelegateCall[];
}

/** The attachments of a stored record. */
export function detachables({ record, plan }: StoredRecord): DetachableAttachment[] {
  return record.attachments.map((attachment, position) => {
    const steps = plan.steps.filter(({ group }) => group === position);
    return { attachment, dels: steps.map(({ call }) => call) };
  });
}

/**
 * The record of attachments, and its teardown plan, which the shim can replay without an engine.
 * The plan has one group per attachment: the rest of a chain is skipped after an error, other
 * attachments are not.
 */
export function recordWithPlan(
  sandbox: RecordedSandbox,
  all: readonly DetachableAttachment[],
): StoredRecord {
  const { addEnded: mark, ...own } = sandbox;
  const { bootId } = own;
  const attachments = all.map(({ attachment }) => attachment);
  const isMarked = mark === true && attachments.some(({ state }) => state !== "attached");
  const addEnded = isMarked ? { addEnded: mark } : {};
  const attempted = attachments.findLastIndex(({ state }) => state !== "planned") + 1;
  const groups = all.map(({ dels }, group) => dels.map((call) => ({ group, call })));
  const steps = groups.reverse().flat();
  return { record: { ...own, ...addEnded, attachments }, plan: { bootId, attempted, steps } };
}

/** The teardown plan of a record without one. @throws CniError 7 for an invalid configuration */
export function teardownPlan(record: AttachmentRecord, timeoutMs: number): TeardownPlan {
  const all = record.attachments.map((attachment) => {
    const rt = runtimeConf(record, attachment, timeoutMs);
    const dels = delCallsOfStored(recordedList(attachment), rt, attachment.result);
    return { attachment, dels: dels.flatMap(withRelease) };
  });
  return recordWithPlan(record, all).plan;
}

/** A DEL, then the IPAM plugin's in case there is no namespace ({@link ipamCallAfter}). */
export function withRelease(call: DelegateCall): DelegateCall[] {
  const release = ipamCallAfter(call);
  return release === undefined ? [call] : [call, release];
}

/** The DELs without what {@link withRelease} added, which an engine runs only where it is needed. */
export function withoutReleases(dels: readonly DelegateCall[]): DelegateCall[] {
  return dels.filter((call, i) => {
    const before = dels[i - 1];
    if (before === undefined || call.stdin !== before.stdin) return true;
    return ipamCallAfter(before)?.type !== call.type;
  });
}

/** An attachment without its first DEL, which is done. */
export function afterFirstPlugin({ attachment, dels }: DetachableAttachment): DetachableAttachment {
  return { attachment, dels: withoutReleases(dels).slice(1).flatMap(withRelease) };
}

/** The DELs of a plan that have to be executed, as {@link attachmentsToDetach}. */
export function stepsToReplay(plan: TeardownPlan, currentBootId: string): TeardownPlan["steps"] {
  if (plan.bootId !== currentBootId) return plan.steps;
  return plan.steps.filter(({ group }) => group < plan.attempted);
}

/** The network and interface of a planned DEL; the name is "" when the plan does not say. */
export function plannedNetwork(call: DelegateCall): { name: string; ifName: string } {
  const { name } = objectOf(parseJsonText(call.stdin));
  return { name: typeof name === "string" ? name : "", ifName: call.env.CNI_IFNAME ?? "" };
}

/**
 * The attachments that have to be detached, in the order of attachment. What was never attempted
 * needs no DEL. Progress is not durable immediately, so after a reboot everything planned may have
 * run.
 */
export function attachmentsToDetach(
  { attachments, bootId }: Pick<AttachmentRecord, "attachments" | "bootId">,
  currentBootId: string,
): readonly RecordedAttachment[] {
  if (bootId !== currentBootId) return attachments;
  return attachments.filter(({ state }) => state !== "planned");
}
