import { ipamType } from "#cni/conf/plugin-conf.ts";
import type { JsonObject } from "#lib/json.ts";
import { parseJsonText } from "#lib/parsing/json-text.ts";
import type { DelegateCall } from "./delegate.ts";

/**
 * Plugins whose DEL without a namespace succeeds before it reaches the IPAM plugin. Only add
 * plugins that are known to behave so: a vendor's `ipam` need not name an executable (`azure-cns`),
 * or one that understands the configuration (`usePodCidr`).
 * e2e/netns/plugins/address-release.test.ts and e2e/sriov/links.test.ts check the other plugins of
 * the reference release.
 */
const leavingAddresses = new Set(["accelerated-bridge", "host-device", "ib-sriov"]);

/** A plugin's call to its IPAM plugin, if it has one (CNI 1.1.0 §4 "Plugin delegation"). */
export function ipamCall(call: DelegateCall): DelegateCall | undefined {
  const type = ipamType(parseJsonText(call.stdin));
  return type === undefined ? undefined : { ...call, type };
}

/**
 * The call that releases an address left behind ({@link mayLeaveAddress}); plugins accept a
 * repeated DEL (CNI 1.1.0 §2 "DEL"). Parses no other configurations, because every ADD calls this.
 */
export function ipamCallAfter(call: DelegateCall): DelegateCall | undefined {
  return leavingAddresses.has(call.type) ? ipamCall(call) : undefined;
}

/** Whether a DEL of this plugin without a namespace keeps its address allocated. */
export function mayLeaveAddress(plugin: {
  readonly type: string;
  readonly raw: JsonObject;
}): boolean {
  return leavingAddresses.has(plugin.type) && ipamType(plugin.raw) !== undefined;
}
