import type { NetConfList } from "#cni/conf/conf.ts";
import { delCalls, delCallsOfStored } from "#cni/runtime/chain.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { type JsonObject, objectOf } from "#lib/json.ts";
import { parseJsonText } from "#lib/parsing/json-text.ts";
import { ipamCallAfter } from "./ipam.ts";
import type { AttachmentRecord, RecordedAttachment, RecordedSandbox } from "./record.ts";
import { recordedList, runtimeConf } from "./recorded-conf.ts";

/** One DEL of a teardown plan. */
export interface TeardownStep {
  /** The attachment's position in the order of attachment, from 0. */
  readonly group: number;
  readonly call: DelegateCall;
}

/** The DELs of a record, executable by the shim without an engine (shim/protocol.h, `PLAN`). */
export interface TeardownPlan {
  readonly bootId: string;
  /** Groups below this number may have run in that boot; those from it on have not. */
  readonly attempted: number;
  /** In the order of execution: last attached first, a chain's last plugin first. */
  readonly steps: readonly TeardownStep[];
}

/** A record and its teardown plan, which are stored as one. */
export interface StoredRecord {
  readonly record: AttachmentRecord;
  readonly plan: TeardownPlan;
}

/** An attachment, as the record keeps it, with its DELs, as the teardown plan keeps them. */
export interface DetachableAttachment {
  readonly attachment: RecordedAttachment;
  readonly dels: readonly DelegateCall[];
}

/**
 * The DELs of an attachment that this ADD makes.
 * @param network its network configuration list, parsed, and the last result of a plugin while the
 *   attachment has none: plugins like `firewall` find only by it what they have to remove
 */
export function detachable(
  sandbox: Pick<AttachmentRecord, "containerId" | "netns">,
  attachment: RecordedAttachment,
  network: {
    readonly list: NetConfList;
    readonly timeoutMs: number;
    readonly partialResult?: JsonObject;
  },
): DetachableAttachment {
  const { list, timeoutMs, partialResult } = network;
  const rt = runtimeConf(sandbox, attachment, timeoutMs);
  const result = attachment.result ?? partialResult;
  return { attachment, dels: delCalls(list, rt, result).flatMap(withRelease) };
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

/** The DELs of a plan that have to be executed, as `attachmentsToDetach()`. */
export function stepsToReplay(plan: TeardownPlan, currentBootId: string): readonly TeardownStep[] {
  if (plan.bootId !== currentBootId) return plan.steps;
  return plan.steps.filter(({ group }) => group < plan.attempted);
}

/** The network and interface of a planned DEL; the name is "" when the plan does not say. */
export function plannedNetwork(call: DelegateCall): { name: string; ifName: string } {
  const { name } = objectOf(parseJsonText(call.stdin));
  return { name: typeof name === "string" ? name : "", ifName: call.env.CNI_IFNAME ?? "" };
}
