import type { NetConfList } from "#cni/conf/conf.ts";
import type { PluginConf } from "#cni/conf/plugin-conf.ts";
import { type ValidAttachment, validAttachmentsKeys } from "#cni/valid-attachments.ts";
import type { Json, JsonObject } from "#lib/json.ts";

/** What goes into a delegate's configuration beside its own keys. */
interface DelegateInput {
  /** Capability arguments; those that the delegate has enabled become its `runtimeConfig`. */
  readonly capabilityArgs?: JsonObject;
  readonly prevResult?: JsonObject;
  /** Attachments that GC must leave alone. */
  readonly validAttachments?: readonly ValidAttachment[];
}

/**
 * Keys that only the runtime may set: what a file on disk says there is stale. `args` and other
 * `cni.dev/` keys are passed on, as libcni does.
 */
const runtimeKeys = new Set(["prevResult", "runtimeConfig", ...validAttachmentsKeys]);

/**
 * Derives what a delegate reads on stdin: CNI 1.1.0 §3 "Deriving request configuration from plugin
 * configuration". `capabilities` stays, against the letter of the specification, as libcni leaves
 * it there and plugins that delegate rely on it.
 */
export function delegateStdin(
  list: NetConfList,
  plugin: PluginConf,
  { capabilityArgs = {}, prevResult, validAttachments }: DelegateInput = {},
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
    for (const key of validAttachmentsKeys) members.set(key, items);
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
