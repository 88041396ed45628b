import { ipamType } from "#cni/conf/plugin-conf.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { parseJsonText } from "#lib/parsing/json-text.ts";

/**
 * Plugins whose DEL without a namespace succeeds before it reaches the IPAM plugin. Only add plugins that are known to
 * behave so: a vendor's `ipam` need not name an executable (`azure-cns`), or one that understands the configuration
 * (`usePodCidr`). e2e/netns/plugins/address-release.test.ts and e2e/sriov/links.test.ts check the other plugins of the
 * reference release.
 */
const leavingAddresses = new Set(["host-device"]);

/**
 * The call that a plugin makes to its IPAM plugin: the same environment and configuration (CNI 1.1.0
 * §4 "Plugin delegation"). Undefined when its configuration names none.
 */
export function ipamCall(call: DelegateCall): DelegateCall | undefined {
  const type = ipamType(parseJsonText(call.stdin));
  return type === undefined ? undefined : { ...call, type };
}

/**
 * The call that releases the address of a plugin whose DEL without a namespace keeps it; see {@link mayLeaveAddress}.
 * If the address is released already, the plugin must accept the repeated DEL (CNI 1.1.0 §2 "DEL"). Every ADD calls
 * this for each plugin, so only the configurations of such plugins are parsed.
 */
export function ipamCallAfter(call: DelegateCall): DelegateCall | undefined {
  return leavingAddresses.has(call.type) ? ipamCall(call) : undefined;
}

/** Whether a DEL of this plugin without a namespace keeps its address allocated. */
export function mayLeaveAddress(plugin: { readonly type: string; readonly raw: unknown }): boolean {
  return leavingAddresses.has(plugin.type) && ipamType(plugin.raw) !== undefined;
}
