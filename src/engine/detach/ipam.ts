import { isPluginType } from "#cni/names.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { isJsonObject } from "#lib/json.ts";
import { parseJsonText } from "#lib/json-text.ts";

/**
 * The call that a plugin makes to its IPAM plugin: the same environment and configuration (CNI 1.1.0
 * §4 "Plugin delegation"). Undefined when its configuration names none.
 */
export function ipamCall(call: DelegateCall): DelegateCall | undefined {
  const conf = parseJsonText(call.stdin);
  const ipam = isJsonObject(conf) ? conf.ipam : undefined;
  const type = isJsonObject(ipam) ? ipam.type : undefined;
  if (typeof type !== "string" || !isPluginType(type)) return undefined;
  return { ...call, type };
}
