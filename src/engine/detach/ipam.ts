import { isPluginType } from "#cni/names.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { isJsonObject } from "#lib/json.ts";
import { parseJsonText } from "#lib/json-text.ts";

/**
 * Plugins that execute their IPAM plugin in every DEL. e2e/netns/address-release.test.ts and e2e/sriov/links.test.ts
 * hold the reference release to it.
 */
const releasing = new Set(["bridge", "ipvlan", "macvlan", "ptp", "vlan"]);

/**
 * The call that a plugin makes to its IPAM plugin: the same environment and configuration (CNI 1.1.0
 * §4 "Plugin delegation"). Undefined when its configuration names none.
 */
export function ipamCall(call: DelegateCall): DelegateCall | undefined {
  const type = ipamType(parseJsonText(call.stdin));
  return type === undefined ? undefined : { ...call, type };
}

/**
 * The call that releases the address which a plugin may have left although its DEL without a namespace succeeded;
 * see {@link mayLeaveAddress}. Where the address was released, this repeats a DEL, which every plugin has to
 * accept (CNI 1.1.0 §2 "DEL").
 */
export function ipamCallAfter(call: DelegateCall): DelegateCall | undefined {
  return mayLeaveAddress({ type: call.type, raw: parseJsonText(call.stdin) })
    ? ipamCall(call)
    : undefined;
}

/**
 * Whether a plugin may succeed in a DEL without a namespace before it comes to its IPAM plugin. `host-device` of the
 * reference release does, and of most others nothing is known.
 */
export function mayLeaveAddress(plugin: { readonly type: string; readonly raw: unknown }): boolean {
  if (releasing.has(plugin.type)) return false;
  const ipam = ipamType(plugin.raw);
  return ipam !== undefined && ipam !== plugin.type;
}

function ipamType(conf: unknown): string | undefined {
  const ipam = isJsonObject(conf) ? conf.ipam : undefined;
  const type = isJsonObject(ipam) ? ipam.type : undefined;
  return typeof type === "string" && isPluginType(type) ? type : undefined;
}
