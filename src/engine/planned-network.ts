import type { DelegateCall } from "#cni/delegate.ts";
import { isJsonObject } from "#lib/json.ts";
import { parseJsonText } from "#lib/json-text.ts";

/** Which network's attachment a call of a teardown plan is about; its name is "" when the plan does not say. */
export function plannedNetwork(call: DelegateCall): { name: string; ifName: string } {
  const conf = parseJsonText(call.stdin);
  const name = isJsonObject(conf) && typeof conf.name === "string" ? conf.name : "";
  return { name, ifName: call.env.CNI_IFNAME ?? "" };
}
