import { basename, dirname } from "node:path";
import { type EngineConfig, engineConfigFromKeys } from "#engine/config.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import {
  type ListenAddress,
  type MetricsAddress,
  parseListenAddress,
  parseMetricsAddress,
} from "./listen-address.ts";
import { type ConfigFile, configSchema } from "./schema.ts";

/** What plexusd is configured to do. */
export interface DaemonConfig {
  /** What the file says about networks. A key that is absent here may be in the runtime's conf. */
  readonly engine: Partial<EngineConfig>;
  /** How long a live read of the API may take. */
  readonly apiTimeoutMs: number;
  /** How long a call waits for its status annotation. */
  readonly statusWaitMs: number;
  /** The kubelet's directory. */
  readonly kubeletDir: string;
  /** Where health and metrics are served; undefined = nowhere. */
  readonly http: ListenAddress | undefined;
  /** Where metrics are served over TLS to callers with the right; undefined = nowhere. */
  readonly metricsAddress: MetricsAddress | undefined;
  readonly logLevel: "debug" | "info" | "warn" | "error";
  readonly nodeConf: NodeConfSpec;
  /** The key of the taint that keeps pods away until the node is served; undefined = none. */
  readonly startupTaint: string | undefined;
}

/** How the node's CNI configuration is to be. */
export interface NodeConfSpec {
  /** Where the container runtime looks for networks. */
  readonly cniConfDir: string;
  /** The container runtime's plugin directory that the shim is installed in. */
  readonly shimDir: string;
  /** Where the primary CNI's plugins must be, in order. */
  readonly binDirs: readonly string[];
  /** Where the primary CNI writes its configuration. */
  readonly primaryDir: string;
  /** The primary CNI's file name; undefined = to be found. */
  readonly primaryConf: string | undefined;
  /** The default network is configured otherwise: by a name, or inline. */
  readonly withoutPrimary: boolean;
  /** The networks that are configured inline. */
  readonly delegates: readonly JsonObject[];
  readonly settleMs: number;
  readonly readinessFile: string | undefined;
  /** Added to the primary CNI's capabilities; `false` takes one of those away. */
  readonly capabilities: Readonly<Record<string, boolean>>;
}

/** What the keys of a file mean. */
export function configFromFile(file: ConfigFile): DaemonConfig {
  const { apiTimeoutMs, statusWaitMs, kubeletDir, logLevel } = file;
  const { delegateTimeoutMs, delBudgetMs, missingPluginGraceMs, failedAddGraceMs } = file;
  return {
    engine: {
      ...engineConfigFromKeys(file),
      ...omitUndefined({ delegateTimeoutMs, delBudgetMs, missingPluginGraceMs, failedAddGraceMs }),
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
  // A default network that is given as a file is the primary CNI's, wherever it is.
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

/** The configuration of a daemon that has no file, or an empty one. */
export const defaultConfig: DaemonConfig = configFromFile(configSchema.parse({}));

/** Where health and metrics are served by default, as `ADDRESS:PORT`. */
export const defaultHttpAddress: string = configSchema.parse({}).http;
