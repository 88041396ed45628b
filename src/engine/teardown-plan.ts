import { delCalls } from "#cni/runtime/chain.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { isJsonObject } from "#lib/json.ts";
import { parseJsonText } from "#lib/json-text.ts";
import { recordedList, runtimeConf } from "./planned-attachment.ts";
import type { AttachmentRecord } from "./record.ts";

/** The DELs of a record, ready to be executed in order; one group per attachment. */
export type TeardownPlan = readonly { readonly group: number; readonly call: DelegateCall }[];

/**
 * The DELs of every attachment, last attached first, as the shim can replay them without an
 * engine. One group per attachment: a chain stops at its first error, other attachments go on.
 */
export function teardownPlan(record: AttachmentRecord, timeoutMs: number): TeardownPlan {
  return record.attachments
    .map((attachment, group) => {
      const rt = runtimeConf(record, attachment, timeoutMs);
      return delCalls(recordedList(attachment), rt, attachment.result).map((call) => ({
        group,
        call,
      }));
    })
    .reverse()
    .flat();
}

/** Which network's attachment a call of a teardown plan is about; its name is "" when the plan does not say. */
export function plannedNetwork(call: DelegateCall): { name: string; ifName: string } {
  const conf = parseJsonText(call.stdin);
  const name = isJsonObject(conf) && typeof conf.name === "string" ? conf.name : "";
  return { name, ifName: call.env.CNI_IFNAME ?? "" };
}
