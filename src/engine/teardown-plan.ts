import { delCalls } from "#cni/runtime/chain.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { isJsonObject } from "#lib/json.ts";
import { parseJsonText } from "#lib/json-text.ts";
import { recordedList, runtimeConf } from "./planned-attachment.ts";
import type { AttachmentRecord } from "./record.ts";

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
    .map((attachment, group) => {
      const rt = runtimeConf(record, attachment, timeoutMs);
      return delCalls(recordedList(attachment), rt, attachment.result).map((call) => ({
        group,
        call,
      }));
    })
    .reverse()
    .flat();
  const attempted = attachments.findLastIndex(({ state }) => state !== "planned") + 1;
  return { bootId, attempted, steps };
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
