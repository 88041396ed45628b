import type { NetConfList } from "#cni/conf/conf.ts";
import { CniError } from "#cni/error.ts";
import { isJsonObject, type Json } from "#lib/json.ts";

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

/** Where a plugin's configuration names a plugin that it executes itself: any has `ipam`, flannel's `delegate`. */
const delegatingKeys = ["ipam", "delegate"];

/** Whether a plugin of this type is a delegating meta-plugin. */
export function isMetaPluginType(type: string): boolean {
  return metaPluginTypes.has(type);
}

/**
 * Refuses a network of whose plugins one is Plexus itself or another meta-plugin, or would execute
 * one: it would call Plexus for the sandbox that the call in progress has locked. `display` names
 * the network in the message.
 *
 * @throws CniError 7
 */
export function checkNotMetaPlugin(list: NetConfList, display: string): void {
  for (const [index, { type, raw }] of list.plugins.entries()) {
    const field = `network "${display}": plugins[${index}]`;
    refuseMetaPlugin(type, `${field}.type`);
    for (const key of delegatingKeys) {
      for (const delegate of membersOf(raw, key)) {
        for (const used of membersOf(delegate, "type")) {
          refuseMetaPlugin(used, `${field}.${key}.type`);
        }
      }
    }
  }
}

/** The members of this name, in any case: Go's plugins read keys so. */
function membersOf(value: Json, name: string): Json[] {
  if (!isJsonObject(value)) return [];
  return Object.entries(value).flatMap(([key, member]) =>
    key.toLowerCase() === name ? [member] : [],
  );
}

function refuseMetaPlugin(type: unknown, field: string): void {
  if (typeof type !== "string" || !isMetaPluginType(type)) return;
  throw new CniError("MetaPlugin", `${field}: "${type}" is a meta-plugin and cannot be a delegate`);
}
