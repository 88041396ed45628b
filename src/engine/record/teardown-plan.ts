import { delCalls } from "#cni/runtime/chain.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { ipamCallAfter } from "#engine/del/ipam.ts";
import { recordedList, runtimeConf } from "#engine/plan/planned-attachment.ts";
import { isJsonObject, type JsonObject } from "#lib/json.ts";
import { parseJsonText } from "#lib/json-text.ts";
import type { AttachmentRecord, RecordedAttachment } from "./record.ts";

/** One DEL of a teardown plan. */
export interface TeardownStep {
  /** The attachment's position in the order of attachment, from 0. */
  readonly group: number;
  readonly call: DelegateCall;
}

/** The DELs of a record, as the shim can execute them without an engine (shim/protocol.h, `PLAN`). */
export interface TeardownPlan {
  /** As in the record; "" when it is not known. */
  readonly bootId: string;
  /** Groups below this number may have run in that boot; those from it on have not. */
  readonly attempted: number;
  /** Ready to be executed in order: last attached first, a chain's last plugin first. */
  readonly steps: readonly TeardownStep[];
}

/**
 * The DELs of every attachment, last attached first, as the shim can replay them without an
 * engine. One group per attachment: a chain stops at its first error, other attachments go on.
 */
export function teardownPlan(record: AttachmentRecord, timeoutMs: number): TeardownPlan {
  const { attachments, bootId } = record;
  const steps = attachments
    .map((_, group) => attachmentSteps(record, group, timeoutMs))
    .reverse()
    .flat();
  const attempted = attachments.findLastIndex(({ state }) => state !== "planned") + 1;
  return { bootId, attempted, steps };
}

/** The steps of an attachment, and what they were made from. */
interface KnownSteps {
  readonly sources: readonly unknown[];
  readonly steps: readonly TeardownStep[];
}

/** By the configuration of an attachment, which is the same object in every record of an ADD. */
const known = new WeakMap<JsonObject, KnownSteps>();

/** The steps of one attachment. Most are as they were when the record was updated before. */
function attachmentSteps(
  record: AttachmentRecord,
  group: number,
  timeoutMs: number,
): readonly TeardownStep[] {
  const attachment = record.attachments[group] as RecordedAttachment;
  const { conf, ifName, cniArgs, capabilityArgs, searchPath, result } = attachment;
  const { containerId, netns } = record;
  const parameters = [ifName, cniArgs, capabilityArgs, searchPath, result];
  const sources = [containerId, netns, group, timeoutMs, ...parameters];
  const before = known.get(conf);
  if (before?.sources.every((each, i) => each === sources[i]) === true) return before.steps;
  const rt = runtimeConf(record, attachment, timeoutMs);
  const calls = delCalls(recordedList(attachment), rt, result).flatMap(withRelease);
  const steps = calls.map((call) => ({ group, call }));
  known.set(conf, { sources, steps });
  return steps;
}

/**
 * A plan does not know whether there will be a namespace: where a plugin may leave its address without one, the
 * DEL of its IPAM plugin follows in any case.
 */
export function withRelease(call: DelegateCall): DelegateCall[] {
  const release = ipamCallAfter(call);
  return release === undefined ? [call] : [call, release];
}

/** The DELs of a plan that have to be executed: see {@link attachmentsToDetach}. */
export function stepsToReplay(plan: TeardownPlan, currentBootId: string): readonly TeardownStep[] {
  if (plan.bootId !== currentBootId) return plan.steps;
  return plan.steps.filter(({ group }) => group < plan.attempted);
}

/** Which network's attachment a call of a teardown plan is about; its name is "" when the plan does not say. */
export function plannedNetwork(call: DelegateCall): { name: string; ifName: string } {
  const conf = parseJsonText(call.stdin);
  const name = isJsonObject(conf) && typeof conf.name === "string" ? conf.name : "";
  return { name, ifName: call.env.CNI_IFNAME ?? "" };
}
