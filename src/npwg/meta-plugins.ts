import type { NetConfList } from "#cni/conf/conf.ts";
import { CniError, CniErrorCode } from "#cni/error.ts";

/**
 * Types of plugins that delegate to networks of their own choosing. As a delegate each of them would
 * attach the default network once more, or call its caller without end. Recognized by type: names of
 * configuration files say nothing (Multus looks at those, and wraps itself).
 */
const metaPluginTypes: ReadonlySet<string> = new Set([
  "plexus",
  "multus",
  "multus-shim",
  "multus-daemon",
  "genie",
  "cni-genie",
  "danm",
  "knitter",
]);

/** Whether a plugin of this type is a delegating meta-plugin. */
export function isMetaPluginType(type: string): boolean {
  return metaPluginTypes.has(type);
}

/**
 * Refuses a network of whose plugins one is Plexus itself or another meta-plugin. `display` names
 * the network in the message.
 *
 * @throws CniError 7
 */
export function checkNotMetaPlugin(list: NetConfList, display: string): void {
  const index = list.plugins.findIndex((plugin) => isMetaPluginType(plugin.type));
  if (index < 0) return;
  throw new CniError(
    CniErrorCode.InvalidNetworkConfig,
    `network "${display}": plugins[${index}].type: "${list.plugins[index]?.type}" is a meta-plugin and cannot be a delegate`,
  );
}
