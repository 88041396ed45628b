import { ipamType } from "#cni/conf/plugin-conf.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { parseJsonText } from "#lib/json-text.ts";

/**
 * Plugins that succeed in a DEL without a namespace before they come to their IPAM plugin. A plugin is in this list only
 * when it is known to: `ipam` is the plugin's own business, and a vendor's need not name an executable
 * (`azure-cns`), or one that understands what is written there (`usePodCidr`). The other plugins of the
 * reference release are held to their IPAM by e2e/netns/plugins/address-release.test.ts and e2e/sriov/links.test.ts.
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
 * The call that releases the address which a plugin may have left although its DEL without a namespace succeeded;
 * see {@link mayLeaveAddress}. Where the address was released, this repeats a DEL, which every plugin has to
 * accept (CNI 1.1.0 §2 "DEL"). Every ADD asks for each of its plugins: only what such a plugin reads is parsed.
 */
export function ipamCallAfter(call: DelegateCall): DelegateCall | undefined {
  return leavingAddresses.has(call.type) ? ipamCall(call) : undefined;
}

/** Whether a DEL of this plugin without a namespace leaves its address to others. */
export function mayLeaveAddress(plugin: { readonly type: string; readonly raw: unknown }): boolean {
  return leavingAddresses.has(plugin.type) && ipamType(plugin.raw) !== undefined;
}
