import { formatCniArgs, mergeCniArgs } from "#cni/args.ts";
import type { NetConfList } from "#cni/conf/conf.ts";
import type { PluginConf } from "#cni/conf/plugin-conf.ts";
import { type ValidAttachment, validAttachmentsKeys } from "#cni/valid-attachments.ts";
import { currentVersion } from "#cni/versions.ts";
import type { Json, JsonObject } from "#lib/json.ts";
import type { DelegateCall } from "./delegate.ts";

/** The search path and time limit of delegates. */
export type DelegateLimits = Pick<DelegateCall, "searchPath" | "timeoutMs">;

/** The runtime's part of an attachment: CNI 1.1.0 §2 "Parameters". */
export interface RuntimeConf extends DelegateLimits {
  readonly containerId: string;
  /** "" on DEL when the namespace no longer exists. */
  readonly netns: string;
  readonly ifName: string;
  readonly cniArgs: readonly (readonly [string, string])[];
  /** Values of capabilities, not yet filtered by plugin. */
  readonly capabilityArgs: JsonObject;
  /** The prevResult of the first plugin of an ADD. @default none */
  readonly prevResult?: JsonObject;
}

/** What does not come from an attachment's network configuration. */
export function runtimeConf(
  { containerId, netns }: Pick<RuntimeConf, "containerId" | "netns">,
  attachment: Pick<RuntimeConf, "ifName" | "cniArgs" | "capabilityArgs" | "searchPath">,
  timeoutMs: number,
): RuntimeConf {
  const { ifName, cniArgs, capabilityArgs, searchPath } = attachment;
  return { containerId, netns, ifName, cniArgs, capabilityArgs, searchPath, timeoutMs };
}

/** The directories of `path`, then those of `more` that are not among them. */
export function extendedPath(path: readonly string[], more: readonly string[]): string[] {
  return [...new Set([...path, ...more])];
}

/** The call that adds, deletes or checks an attachment with one plugin of its list. */
export function attachmentCall(
  subject: { list: NetConfList; plugin: PluginConf; rt: RuntimeConf },
  command: "ADD" | "DEL" | "CHECK",
  prevResult?: JsonObject,
): DelegateCall {
  const { list, plugin, rt } = subject;
  const parameters = {
    CNI_CONTAINERID: rt.containerId,
    CNI_NETNS: rt.netns,
    CNI_IFNAME: rt.ifName,
    CNI_ARGS: formatCniArgs(mergeCniArgs(rt.cniArgs)),
  };
  const stdin = delegateStdin(list, plugin, { capabilityArgs: rt.capabilityArgs, prevResult });
  return delegateCall(plugin.type, rt, { command, parameters, stdin });
}

/** The call for a whole network (STATUS, GC), without runtimeConfig and prevResult. */
export function networkCall(
  subject: { list: NetConfList; plugin: PluginConf; limits: DelegateLimits },
  command: "STATUS" | "GC",
  validAttachments?: readonly ValidAttachment[],
): DelegateCall {
  const { list, plugin, limits } = subject;
  const stdin = delegateStdin(list, plugin, { validAttachments });
  return delegateCall(plugin.type, limits, { command, stdin });
}

/** The VERSION call, with libcni's placeholders for variables that old plugins require. */
export function versionCall(type: string, limits: DelegateLimits): DelegateCall {
  const parameters = { CNI_NETNS: "dummy", CNI_IFNAME: "dummy", CNI_PATH: "dummy" };
  const stdin = JSON.stringify({ cniVersion: currentVersion });
  return delegateCall(type, limits, { command: "VERSION", parameters, stdin });
}

interface DelegateInvocation extends Pick<DelegateCall, "stdin"> {
  readonly command: string;
  /** Variables besides CNI_PATH. @default none */
  readonly parameters?: DelegateCall["env"];
}

/** A call with all variables of the protocol, so that delegates inherit none from Plexus's own call. */
function delegateCall(
  type: string,
  { searchPath, timeoutMs }: DelegateLimits,
  { command, parameters, stdin }: DelegateInvocation,
): DelegateCall {
  const none = { CNI_CONTAINERID: "", CNI_NETNS: "", CNI_IFNAME: "", CNI_ARGS: "" };
  const env = { CNI_COMMAND: command, ...none, CNI_PATH: searchPath.join(":"), ...parameters };
  return { type, searchPath, env, stdin, timeoutMs };
}

interface DelegateInput {
  /** Capability arguments; the delegate's enabled ones become its `runtimeConfig`. */
  readonly capabilityArgs?: JsonObject;
  readonly prevResult?: JsonObject | undefined;
  readonly validAttachments?: readonly ValidAttachment[] | undefined;
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
function delegateStdin(
  list: NetConfList,
  plugin: PluginConf,
  { capabilityArgs = {}, prevResult, validAttachments }: DelegateInput,
): string {
  const isEnabled = ([key]: readonly [string, Json]): boolean => plugin.capabilities[key] === true;
  const runtimeConfig = Object.entries(capabilityArgs).filter(isEnabled);
  const members = new Map<string, Json>(Object.entries(plugin.raw));
  for (const key of runtimeKeys) members.delete(key);
  members.set("name", list.name).set("cniVersion", list.cniVersion);
  if (prevResult !== undefined) members.set("prevResult", prevResult);
  if (runtimeConfig.length > 0) members.set("runtimeConfig", Object.fromEntries(runtimeConfig));
  if (validAttachments !== undefined) {
    const items = validAttachments.map(({ containerID, ifname }) => ({ containerID, ifname }));
    for (const key of validAttachmentsKeys) members.set(key, items);
  }
  const sorted = [...members.keys()].sort().map((key) => [key, members.get(key)]);
  return JSON.stringify(Object.fromEntries(sorted));
}
