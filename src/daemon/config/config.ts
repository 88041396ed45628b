import { basename, dirname } from "node:path";
import type { NodeMark } from "#daemon/pods/network-placement.ts";
import { engineConfigFromKeys } from "#engine/config.ts";
import { engineKeys } from "#engine/config-keys.ts";
import { defaultsOf, type KeyValues } from "#engine/config-table.ts";
import type { JsonObject } from "#lib/json.ts";
import type { CallConfig } from "./call-config.ts";
import { daemonKeys } from "./daemon-keys.ts";
import { checkedKeys } from "./network-keys.ts";

export const fileKeys = { ...engineKeys, ...checkedKeys, ...daemonKeys };

/** A valid configuration file; every key is optional. */
type ConfigFile = KeyValues<typeof fileKeys>;

const withDefaults = (file: ConfigFile) => ({ ...defaultsOf(daemonKeys), ...file });

export interface DaemonConfig extends CallConfig {
  readonly logLevel: "debug" | "info" | "warn" | "error";
  readonly nodeConf: NodeConfSpec;
  /** The key of the taint that keeps pods off the node until plexusd is ready, if any. */
  readonly startupTaint: string | undefined;
  /** What plexusd writes about networks to its Node. */
  readonly networkPlacement: readonly NodeMark[];
}

/** The wanted CNI configuration of the node. */
export interface NodeConfSpec {
  /** Where the container runtime looks for networks. */
  readonly cniConfDir: string;
  readonly shimDir: string;
  /** Where the primary CNI's plugins must be, in order. */
  readonly binDirs: readonly string[];
  /** Where the primary CNI writes its configuration. */
  readonly primaryDir: string;
  /** The primary CNI's file name, if `clusterNetwork` is its path; undefined to find it. */
  readonly primaryConf: string | undefined;
  /** Whether the default network is configured by name or inline. */
  readonly withoutPrimary: boolean;
  readonly delegates: readonly JsonObject[];
  readonly readinessFile: string | undefined;
  /** Added to the primary CNI's capabilities; `false` removes one. */
  readonly capabilities: Readonly<Record<string, boolean>>;
}

export function configFromFile(file: ConfigFile): DaemonConfig {
  const keys = withDefaults(file);
  const { apiTimeoutMs, logLevel, networkPlacement } = keys;
  return {
    engine: engineConfigFromKeys(file),
    apiTimeoutMs,
    logLevel,
    nodeConf: nodeConfSpec(keys),
    startupTaint: file.startupTaint,
    networkPlacement,
  };
}

function nodeConfSpec(file: ReturnType<typeof withDefaults>): NodeConfSpec {
  const { cniConfDir, clusterNetwork, delegates = [], binDir } = file;
  // A default network that is a file counts as the primary CNI's.
  const path = clusterNetwork?.match(/^\/.*\.(conf|conflist|json)$/s)?.[0];
  const isConfigured = clusterNetwork !== undefined || delegates.length > 0;
  const { cniBinDir } = file;
  const [shimDir, ...otherDirs] = typeof cniBinDir === "string" ? [cniBinDir] : cniBinDir;
  return {
    cniConfDir,
    shimDir,
    binDirs: [...(binDir === undefined ? [] : [binDir]), shimDir, ...otherDirs],
    primaryDir: path === undefined ? (file.primaryDir ?? cniConfDir) : dirname(path),
    primaryConf: path && basename(path),
    withoutPrimary: isConfigured && path === undefined,
    delegates,
    readinessFile: file.readinessindicatorfile === "" ? undefined : file.readinessindicatorfile,
    capabilities: file.capabilities,
  };
}

export const defaultConfig: DaemonConfig = configFromFile({});
