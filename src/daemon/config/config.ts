import { basename, dirname } from "node:path";
import type { EngineConfig } from "#engine/config.ts";
import type { ConfigFile } from "./schema.ts";
import { parseListenAddress } from "./schema.ts";

/** What plexusd is configured to do. */
export interface PlexusConfig {
  /** What goes before the runtime's conf in every call; absent keys leave it the say. */
  readonly engine: Partial<EngineConfig>;
  /** Live reads of the API. */
  readonly apiTimeoutMs: number;
  /** How long a call waits for its status annotation. */
  readonly statusWaitMs: number;
  /** Health and metrics; undefined = none. */
  readonly http: { readonly host: string; readonly port: number } | undefined;
  readonly logLevel: "debug" | "info" | "warn" | "error";
  readonly nodeConf: NodeConfConfig;
}

/** How the node's CNI configuration is made. */
export interface NodeConfConfig {
  /** Where the container runtime looks for networks. */
  readonly cniConfDir: string;
  /** Where the primary's plugins must be, in order. */
  readonly binDirs: readonly string[];
  /** Where the primary CNI writes its configuration. */
  readonly primaryDir: string;
  /** The primary's file name; undefined = to be found. */
  readonly primaryConf: string | undefined;
  /** The default network is configured otherwise: by a name, or inline. */
  readonly withoutPrimary: boolean;
  readonly settleMs: number;
  readonly readinessFile: string | undefined;
  /** Beside the primary's; false = not even then. */
  readonly capabilities: Readonly<Record<string, boolean>>;
}

/** What the file's keys mean, defaults filled in. */
export function configFromFile(file: ConfigFile): PlexusConfig {
  const http = file.http ?? "127.0.0.1:19500";
  return {
    engine: engineConfig(file),
    apiTimeoutMs: file.apiTimeoutMs ?? 5000,
    statusWaitMs: file.statusWaitMs ?? 2000,
    http: http === "off" ? undefined : parseListenAddress(http),
    logLevel: file.logLevel ?? "info",
    nodeConf: nodeConfConfig(file),
  };
}

function nodeConfConfig(file: ConfigFile): NodeConfConfig {
  const cniConfDir = file.cniConfDir ?? "/etc/cni/net.d";
  const { clusterNetwork, binDir } = file;
  // A default network that is given as a file is the primary, wherever it lies.
  const path =
    clusterNetwork !== undefined && isConfPath(clusterNetwork) ? clusterNetwork : undefined;
  const isConfigured = clusterNetwork !== undefined || file.delegates !== undefined;
  return {
    cniConfDir,
    binDirs: [...(binDir === undefined ? [] : [binDir]), file.cniBinDir ?? "/opt/cni/bin"],
    primaryDir: path === undefined ? (file.primary?.dir ?? cniConfDir) : dirname(path),
    primaryConf: path === undefined ? file.primary?.conf : basename(path),
    withoutPrimary: isConfigured && path === undefined,
    settleMs: file.primary?.settleMs ?? 3000,
    readinessFile: file.readinessindicatorfile === "" ? undefined : file.readinessindicatorfile,
    capabilities: file.capabilities ?? {},
  };
}

function isConfPath(reference: string): boolean {
  return reference.startsWith("/") && /\.(conf|conflist|json)$/.test(reference);
}

/** The configuration of a daemon that is given none. */
export const defaultConfig: PlexusConfig = configFromFile({});

/** The keys that the engine reads, and only those that the file has. */
function engineConfig(file: ConfigFile): Partial<EngineConfig> {
  const {
    multusNamespace,
    globalNamespaces,
    capabilities: _capabilities,
    apiTimeoutMs: _apiTimeoutMs,
    statusWaitMs: _statusWaitMs,
    http: _http,
    logLevel: _logLevel,
    cniConfDir: _cniConfDir,
    cniBinDir: _cniBinDir,
    primary: _primary,
    ...same
  } = file;
  const namespace = same.plexusNamespace ?? multusNamespace;
  return {
    ...same,
    ...(namespace !== undefined && { plexusNamespace: namespace }),
    ...(globalNamespaces !== undefined && { globalNamespaces: splitList(globalNamespaces) }),
  };
}

function splitList(list: string | readonly string[]): readonly string[] {
  if (typeof list !== "string") return list;
  return list
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
}
