import type { NetConfList } from "#cni/conf/conf.ts";
import type { PluginConf } from "#cni/conf/plugin-conf.ts";
import { type ValidAttachment, validAttachmentsKeys } from "#cni/valid-attachments.ts";
import type { Json, JsonObject } from "#lib/json.ts";

interface DelegateInput {
  /** Capability arguments; the delegate's enabled ones become its `runtimeConfig`. */
  readonly capabilityArgs?: JsonObject;
  readonly prevResult?: JsonObject;
  readonly validAttachments?: readonly ValidAttachment[];
}

/**
 * Keys that only the runtime may set; values from a file on disk are stale. `args` and other
 * `cni.dev/` keys are kept, as in libcni.
 */
const runtimeKeys = new Set(["prevResult", "runtimeConfig", ...validAttachmentsKeys]);

/**
 * Derives a delegate's stdin: CNI 1.1.0 §3 "Deriving request configuration from plugin
 * configuration". Unlike the specification, libcni keeps `capabilities`, and plugins that delegate
 * rely on it.
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
