import { basename, dirname } from "node:path";
import { engineConfigFromKeys } from "#engine/config.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { CallConfig } from "./call-config.ts";
import {
  type ListenAddress,
  type MetricsAddress,
  parseListenAddress,
  parseMetricsAddress,
} from "./listen-address.ts";
import { type ConfigFile, configSchema } from "./schema.ts";

/** The configuration of plexusd. */
export interface DaemonConfig extends CallConfig, Pick<ConfigFile, "logLevel"> {
  /** Where health and metrics are served, if anywhere. */
  readonly http: ListenAddress | undefined;
  /** Where metrics are served over TLS to authorized callers, if anywhere. */
  readonly metricsAddress: MetricsAddress | undefined;
  readonly nodeConf: NodeConfSpec;
  /** The key of the taint that keeps pods off the node until plexusd is ready, if any. */
  readonly startupTaint: string | undefined;
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
  /** The primary CNI's file name; undefined to find it. */
  readonly primaryConf: string | undefined;
  /** Whether the default network is configured by name or inline. */
  readonly withoutPrimary: boolean;
  readonly delegates: readonly JsonObject[];
  readonly settleMs: number;
  readonly readinessFile: string | undefined;
  /** Added to the primary CNI's capabilities; `false` removes one. */
  readonly capabilities: Readonly<Record<string, boolean>>;
}

/** Converts a file to a configuration. */
export function configFromFile(file: ConfigFile): DaemonConfig {
  const { apiTimeoutMs, statusWaitMs, kubeletDir, logLevel } = file;
  const { delegateTimeoutMs, delBudgetMs, missingPluginGraceMs, failedAddGraceMs } = file;
  const { publishStatus, hotPlug, hotPlugNamespaces, heal, watchAddresses } = file;
  const ofRunningPods = { hotPlug, hotPlugNamespaces, heal, watchAddresses };
  const budgets = { delegateTimeoutMs, delBudgetMs, missingPluginGraceMs, failedAddGraceMs };
  return {
    engine: {
      ...engineConfigFromKeys(file),
      ...omitUndefined({ ...budgets, publishStatus, ...ofRunningPods }),
    },
    apiTimeoutMs,
    statusWaitMs,
    kubeletDir,
    http: file.http === "off" ? undefined : parseListenAddress(file.http),
    metricsAddress: parseMetricsAddress(file.metricsAddress),
    logLevel,
    nodeConf: nodeConfSpec(file),
    startupTaint: file.startupTaint,
  };
}

function nodeConfSpec(file: ConfigFile): NodeConfSpec {
  const { cniConfDir, clusterNetwork, delegates = [], binDir, primary } = file;
  // A default network that is a file counts as the primary CNI's.
  const path =
    clusterNetwork !== undefined && isConfPath(clusterNetwork) ? clusterNetwork : undefined;
  const isConfigured = clusterNetwork !== undefined || delegates.length > 0;
  const { cniBinDir } = file;
  const [shimDir, ...otherDirs] = typeof cniBinDir === "string" ? [cniBinDir] : cniBinDir;
  return {
    cniConfDir,
    shimDir,
    binDirs: [...(binDir === undefined ? [] : [binDir]), shimDir, ...otherDirs],
    primaryDir: path === undefined ? (primary.dir ?? cniConfDir) : dirname(path),
    primaryConf: path === undefined ? primary.conf : basename(path),
    withoutPrimary: isConfigured && path === undefined,
    delegates,
    settleMs: primary.settleMs,
    readinessFile: file.readinessindicatorfile === "" ? undefined : file.readinessindicatorfile,
    capabilities: file.capabilities,
  };
}

function isConfPath(reference: string): boolean {
  return reference.startsWith("/") && /\.(conf|conflist|json)$/.test(reference);
}

export const defaultConfig: DaemonConfig = configFromFile(configSchema.parse({}));
