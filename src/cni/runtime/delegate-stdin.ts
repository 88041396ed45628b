import type { NetConfList, PluginConf } from "#cni/conf/conf.ts";
import type { Json, JsonObject } from "#lib/json.ts";

/** What goes into a plugin's configuration beside its own keys. */
export interface PluginStdin {
  /** Capability arguments; those that the plugin has enabled become its `runtimeConfig`. */
  readonly capabilityArgs?: JsonObject;
  readonly prevResult?: JsonObject;
  /** Attachments that GC must leave alone. */
  readonly validAttachments?: readonly ValidAttachment[];
}

/** One attachment in use: CNI 1.1.0 §2 "GC", keys as the specification spells them. */
export interface ValidAttachment {
  readonly containerID: string;
  readonly ifname: string;
}

/**
 * Keys that only the runtime may set: what a file on disk says there is stale. `args` and other
 * `cni.dev/` keys are passed on, as libcni does.
 */
const runtimeKeys = new Set([
  "prevResult",
  "runtimeConfig",
  "cni.dev/valid-attachments",
  "cni.dev/attachments",
]);

/**
 * Derives what a plugin reads on stdin: CNI 1.1.0 §3 "Deriving request configuration from plugin
 * configuration". `capabilities` stays, against the letter of the specification, as libcni leaves
 * it there and plugins that delegate rely on it.
 */
export function pluginStdin(
  list: NetConfList,
  plugin: PluginConf,
  { capabilityArgs = {}, prevResult, validAttachments }: PluginStdin = {},
): string {
  const runtimeConfig = enabledArgs(plugin, capabilityArgs);
  const members = new Map<string, Json>(
    Object.entries(plugin.raw).filter(([key]) => !runtimeKeys.has(key)),
  );
  members.set("name", list.name).set("cniVersion", list.cniVersion);
  if (prevResult !== undefined) members.set("prevResult", prevResult);
  if (Object.keys(runtimeConfig).length > 0) members.set("runtimeConfig", runtimeConfig);
  if (validAttachments !== undefined) {
    const items = validAttachments.map(({ containerID, ifname }) => ({ containerID, ifname }));
    // The 1.1.0 tag of the specification had the second name; libcni sends both.
    members.set("cni.dev/valid-attachments", items).set("cni.dev/attachments", items);
  }
  return JSON.stringify(Object.fromEntries([...members].toSorted(byKey)));
}

/** The arguments for capabilities that the plugin has enabled. */
function enabledArgs(plugin: PluginConf, capabilityArgs: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(capabilityArgs).filter(
      ([key]) => Object.hasOwn(plugin.capabilities, key) && plugin.capabilities[key] === true,
    ),
  );
}

function byKey([a]: readonly [string, Json], [b]: readonly [string, Json]): number {
  return a < b ? -1 : 1;
}
