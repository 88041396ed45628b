import type { NetConfList } from "#cni/conf/conf.ts";
import { CniError } from "#cni/error.ts";
import { membersOf } from "#lib/json.ts";

/**
 * Plugins that delegate to other networks. As a delegate, such a plugin would attach the default
 * network again or call its caller endlessly. Multus looks at file names instead of types.
 */
const metaPluginTypes: ReadonlySet<unknown> = new Set([
  "plexus",
  "multus",
  "multus-shim",
  "multus-daemon",
  "genie",
  "cni-genie",
  "danm",
  "knitter",
]);

/** Keys that name a plugin to execute: `ipam` for any plugin, `delegate` for flannel. */
const delegatingKeys = ["ipam", "delegate"];

export function isMetaPluginType(type: string): boolean {
  return metaPluginTypes.has(type);
}

/** Whether a list can be the default network. `99-loopback.conf` of the Kubernetes documentation cannot. */
export function canBeDefaultNetwork({ plugins }: Pick<NetConfList, "plugins">): boolean {
  return (
    !plugins.some(({ type }) => isMetaPluginType(type)) &&
    plugins.some(({ type }) => type !== "loopback")
  );
}

/**
 * Checks that no plugin of a network is or executes Plexus or another meta-plugin, which would call
 * Plexus for a sandbox that is already locked. `display` names the network in messages.
 * @throws CniError 7 when one does
 */
export function checkNotMetaPlugin(list: NetConfList, display: string): void {
  for (const [index, { type, raw }] of list.plugins.entries()) {
    const field = `network "${display}": plugins[${index}]`;
    refuseMetaPlugin(type, `${field}.type`);
    for (const key of delegatingKeys) {
      const used = membersOf(raw, key).flatMap((delegate) => membersOf(delegate, "type"));
      for (const each of used) refuseMetaPlugin(each, `${field}.${key}.type`);
    }
  }
}

function refuseMetaPlugin(type: unknown, field: string): void {
  if (!metaPluginTypes.has(type)) return;
  throw new CniError("MetaPlugin", `${field}: "${type}" is a meta-plugin and cannot be a delegate`);
}
