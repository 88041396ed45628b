import { CniError } from "#cni/error.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { supportedVersions } from "#cni/versions.ts";
import type { JsonObject } from "#lib/json.ts";
import type { Attached } from "../../world/attached.ts";

/** An error without a code, as most of the reference plugins' are. */
export function pluginError(message: string): CniError {
  return new CniError("Internal", message);
}

/**
 * The work of a plugin, and what it prints. It takes a while between its steps, so that a kill
 * leaves it half done. Throws a CniError, or an Error of the disk.
 */
export type PluginWork = Generator<undefined, JsonObject | undefined, undefined>;

/** A plugin's commands. */
export interface Plugin {
  add(call: PluginCall): PluginWork;
  del(call: PluginCall): PluginWork;
  check(call: PluginCall): void;
}

/** What the plugins read of their configuration. */
interface PluginInput {
  readonly cniVersion?: string;
  readonly name?: string;
  readonly prevResult?: JsonObject;
  readonly deviceID?: string;
  readonly mtu?: number;
  readonly runtimeConfig?: {
    readonly mac?: string;
    readonly ips?: readonly string[];
    readonly portMappings?: readonly unknown[];
  };
  readonly ipam?: {
    readonly subnet?: string;
    readonly ranges?: readonly (readonly { readonly subnet: string }[])[];
    readonly routes?: readonly { readonly dst: string }[];
  };
  readonly "cni.dev/valid-attachments"?: readonly {
    readonly containerID: string;
    readonly ifname: string;
  }[];
}

/** A call as the plugin sees it. */
export interface PluginCall {
  readonly type: string;
  readonly command: string;
  readonly containerId: string;
  readonly ifName: string;
  readonly netns: string;
  /** Whose namespace was at the path when the plugin began: it keeps that one open. */
  readonly opened: string | undefined;
  readonly network: string;
  readonly cniVersion: string;
  readonly conf: PluginInput;
}

const versions: readonly string[] = supportedVersions;
const needsSandbox = new Set(["ADD", "CHECK"]);
/** The oldest version that has the command. */
const sinceVersion: Readonly<Record<string, string>> = {
  CHECK: "0.4.0",
  GC: "1.1.0",
  STATUS: "1.1.0",
};

/** Reads a call as CNI's library for plugins does (pkg/skel). @throws CniError */
export function readPluginCall({ type, env, stdin }: DelegateCall): Omit<PluginCall, "opened"> {
  const command = env.CNI_COMMAND ?? "";
  const { CNI_CONTAINERID: containerId = "", CNI_NETNS: netns = "", CNI_IFNAME: ifName = "" } = env;
  const lacks =
    (needsSandbox.has(command) && netns === "") ||
    ((needsSandbox.has(command) || command === "DEL") && (containerId === "" || ifName === ""));
  if (lacks) throw new CniError("InvalidEnvironmentVariables", "required env variables missing");
  const conf = parseConf(stdin);
  const { cniVersion = "0.1.0", name: network = "" } = conf;
  const version = versions.indexOf(cniVersion);
  if (version < 0) throw new CniError("IncompatibleCniVersion", "incompatible CNI versions");
  if (version < versions.indexOf(sinceVersion[command] ?? ""))
    throw new CniError("IncompatibleCniVersion", `config version does not allow ${command}`);
  if (command !== "VERSION" && network === "")
    throw new CniError("InvalidNetworkConfig", "missing network name");
  return { type, command, containerId, ifName, netns, network, cniVersion, conf };
}

function parseConf(stdin: string): PluginInput {
  try {
    return JSON.parse(stdin) as PluginInput;
  } catch {
    throw new CniError("DecodingFailure", "error unmarshall network config");
  }
}

/** What this call makes. */
export function madeBy(call: PluginCall, kind: Attached["kind"]): Attached {
  const { containerId, ifName, network, type: plugin, netns } = call;
  return { containerId, ifName, network, plugin, kind, netns };
}

/** Whether both are of the same container, interface and network. */
export function isOwner(
  { containerId, ifName }: Pick<Attached, "containerId" | "ifName">,
  of: Pick<Attached, "containerId" | "ifName">,
): boolean {
  return containerId === of.containerId && ifName === of.ifName;
}
