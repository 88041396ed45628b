import { defaultPaths } from "#lib/files/default-paths.ts";
import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";

/** A key of Multus, or an argument of its container, in Plexus's terms. */
export interface Translation {
  /** Keys of Plexus's configuration. */
  readonly keys?: JsonObject;
  /** Why there is no counterpart or what differs, and what to do. */
  readonly note?: string;
}

/** A line about a key or argument of Multus. */
export interface MigrationNote {
  /** The file, its ConfigMap entry or its DaemonSet. */
  readonly source: string;
  readonly key: string;
  readonly note: string;
}

/** A configuration, or a container's arguments, that Multus uses. */
export interface Effective {
  readonly source: string;
  readonly kind: "arguments" | "cni" | "daemon";
  readonly keys: JsonObject;
  /** The host's path of a path in Multus's container. */
  readonly onHost: (path: string) => string;
}

/** What the translation of a value depends on besides it. */
export interface Surroundings extends Effective {
  /** Whether Multus generates its CNI configuration from the primary CNI's. */
  readonly isGenerated: boolean;
}

/** A key of Multus 4.3, for CNI or for its daemon, or an argument of its thin entry point, or both. */
export interface MultusRow {
  readonly key?: string;
  /** Without dashes. Multus uses it only if it generates its CNI configuration, unless `always`. */
  readonly argument?: string;
  readonly always?: true;
  /** Plexus's key of the same meaning. */
  readonly to?: string;
  /** The value is a path in Multus's container. */
  readonly isPath?: true;
  /** A switch, whose note is given only if it is in this position. */
  readonly notedIf?: boolean;
  /** What differs, or why there is no counterpart, and what to do. Without it, nothing is lost. */
  readonly note?: string;
  /** Translates a value where that depends on others. */
  readonly translate?: (value: Json, surroundings: Surroundings) => Translation;
}

const logging = "Plexus logs to stderr: read it with kubectl logs; the kubelet rotates it";
const socket = "not needed: the socket is /run/plexus/plexus.sock";
const installs = "not needed: plexusctl install writes Plexus's own executables";
const writesConf = "plexusd writes the node's configuration: the keys of that file are in this one";
const unusedByMultus = "left out: Multus does not use it in its own configuration either";

/** Every key and argument, with its counterpart and what a comment says about it. @internal */
export const multusRows: readonly MultusRow[] = [
  ...["cniVersion", "name", "type", "prevResult", "runtimeConfig"].map((key) => ({ key })),
  { key: "cni.dev/valid-attachments" },
  { argument: "cni-version", note: "not needed: Plexus answers in the version of the primary CNI" },
  { key: "ipam", note: unusedByMultus },
  { key: "dns", note: unusedByMultus },
  { key: "clusterNetwork", translate: clusterNetwork },
  { key: "delegates", translate: delegates },
  { key: "defaultNetworks", translate: defaultNetworks },
  { key: "systemNamespaces", to: "systemNamespaces" },
  { key: "multusNamespace", to: "plexusNamespace" },
  {
    ...{ key: "namespaceIsolation", argument: "namespace-isolation" },
    ...{ to: "namespaceIsolation", notedIf: true },
  },
  { key: "globalNamespaces", argument: "global-namespaces", to: "globalNamespaces" },
  { key: "auxiliaryCNIChainName", to: "auxiliaryCNIChainName" },
  { key: "confDir", to: "confDir", isPath: true },
  {
    key: "cniConf",
    note: "left out: Multus's entry point writes this key, but Multus 4.3 does not read it. It reads definitions without spec.config from `confDir`",
  },
  {
    ...{ argument: "multus-cni-conf-dir", always: true },
    note: "Multus 4.3 creates this directory, but reads definitions without spec.config from `confDir`",
  },
  {
    ...{ key: "binDir", argument: "additional-bin-dir", to: "binDir", isPath: true },
    note: "/etc/plexus/plugin-dirs on the host must list it (plexusctl install does that), and only root may write there",
  },
  {
    ...{ key: "readinessindicatorfile", argument: "readiness-indicator-file" },
    ...{ to: "readinessindicatorfile", isPath: true },
  },
  { key: "capabilities", to: "capabilities" },
  { key: "multusMasterCNI", argument: "multus-master-cni-file-name", translate: masterCni },
  {
    ...{ key: "multusAutoconfigDir", argument: "multus-autoconfig-dir" },
    ...{ to: "primaryDir", isPath: true },
  },
  { key: "cniConfigDir", argument: "cni-conf-dir", always: true, to: "cniConfDir", isPath: true },
  { argument: "cni-bin-dir", always: true, to: "cniBinDir", isPath: true },
  { key: "logLevel", argument: "multus-log-level", translate: logLevel },
  { key: "logFile", argument: "multus-log-file", note: logging },
  { key: "logOptions", note: logging },
  { key: "logToStderr", argument: "multus-log-to-stderr", notedIf: false, note: logging },
  {
    ...{ key: "kubeconfig", argument: "multus-kubeconfig-file-host" },
    note: "plexusd uses its service account. Only plexus-standalone on nodes without plexusd reads `kubeconfig`, from the CNI configuration (docs/operations/standalone.md)",
  },
  {
    key: "cniDir",
    note: "state is in /var/lib/plexus. The state of pods that Multus attached is in this directory: docs/user/migration.md describes their teardown",
  },
  {
    key: "retryDeleteOnError",
    note: "always on: Plexus keeps a record until every network is detached",
  },
  { key: "socketDir", note: socket },
  { key: "daemonSocketDir", note: socket },
  {
    key: "chrootDir",
    note: "not needed: the plugins run on the host, as the container runtime would run them",
  },
  {
    key: "multusConfigFile",
    translate: (value) => (value === "auto" ? {} : { note: writesConf }),
  },
  { argument: "multus-conf-file", always: true },
  { argument: "multus-bin-file", always: true, note: installs },
  { argument: "skip-multus-binary-copy", always: true, notedIf: true, note: installs },
  {
    ...{ key: "forceCNIVersion", argument: "force-cni-version", notedIf: true },
    note: "not needed: the primary CNI's own file is never changed",
  },
  {
    ...{ key: "overrideNetworkName", argument: "override-network-name", notedIf: true },
    note: "not needed: the node's configuration always has the primary CNI's network name",
  },
  {
    ...{ argument: "cleanup-config-on-exit", always: true, notedIf: true },
    note: "plexusd leaves the node's configuration when it stops, so that an upgrade does not change the node's network; plexusctl uninstall removes it",
  },
  {
    ...{ argument: "skip-config-watch", notedIf: true },
    note: "plexusd always follows changes of the primary CNI's file",
  },
  {
    ...{ argument: "rename-conf-file", notedIf: true },
    note: "Multus renamed the primary CNI's configuration on every node to NAME.old, where Plexus does not find it: rename it back before Plexus starts there",
  },
  {
    ...{ argument: "skip-tls-verify", always: true, notedIf: true },
    note: "plexusd verifies the API server's certificate with its service account's CA",
  },
  {
    key: "perNodeCertificate",
    note: "plexusd's token is short-lived and of its service account; deploy/base/admission-policy.yaml limits it to its own node",
  },
  {
    key: "connectionLimit",
    note: "not needed: the limits on everything a call can cost are built in",
  },
  {
    key: "metricsPort",
    note: "metrics are served on 127.0.0.1:19500, not on every address of the node: docs/operations/metrics.md",
  },
  { key: "enablePprof", notedIf: true, note: "there is no profiling port" },
];

/** What the thin entry point uses without an argument. */
export const argumentDefaults = {
  "cni-bin-dir": "/host/opt/cni/bin",
  "cni-conf-dir": "/host/etc/cni/net.d",
  "multus-autoconfig-dir": "/host/etc/cni/net.d",
  "multus-conf-file": "auto",
} as const;

/** The row of an argument. Switches take no value, or one after `=`. */
export function rowOfArgument(name: string): MultusRow | undefined {
  return multusRows.find(({ argument }) => argument === name);
}

/** How the table spells a key of Multus that is written in any case; itself if there is none. */
export function tableKey(written: string): string {
  const isMeant = ({ key }: MultusRow): boolean => key?.toLowerCase() === written.toLowerCase();
  return multusRows.find(isMeant)?.key ?? written;
}

/** Translates a key or an argument by its row; null and "" are absent, as in Go. */
export function translate(name: string, value: Json, surroundings: Surroundings): Translation {
  const isArgument = surroundings.kind === "arguments";
  const row = isArgument ? rowOfArgument(name) : multusRows.find(({ key }) => key === name);
  if (row === undefined) return { note: "Multus 4.3 does not read this key either; left out" };
  if (isArgument && String(value).includes("$("))
    return { note: "left out: it depends on the container's environment" };
  if (isArgument && row.always !== true && !surroundings.isGenerated)
    return { note: "left out: Multus uses it only with --multus-conf-file=auto" };
  if (value === null || value === "") return {};
  return row.translate?.(value, surroundings) ?? asRowSays(row, value, surroundings);
}

function asRowSays(row: MultusRow, given: Json, { onHost }: Surroundings): Translation {
  const { to, note, isPath, notedIf } = row;
  const value = notedIf === undefined ? given : isOn(given);
  const isNoted = note !== undefined && (notedIf === undefined || notedIf === (value !== false));
  return {
    ...(to !== undefined && {
      keys: { [to]: isPath === true && typeof value === "string" ? onHost(value) : value },
    }),
    ...(isNoted && { note }),
  };
}

/** A switch, also as text for Go's flags. Anything else counts as on, and is refused or noted. */
function isOn(value: Json): Json {
  if (typeof value !== "string") return value;
  if (/^(1|t|true)$/i.test(value)) return true;
  return /^(0|f|false)$/i.test(value) ? false : value;
}

/** Multus's daemon writes the path of the primary CNI's file, which tells its directory. */
function clusterNetwork(value: Json, surroundings: Surroundings): Translation {
  const { kind, keys, isGenerated, onHost } = surroundings;
  const path = typeof value === "string" ? onHost(value) : value;
  const isDaemons = kind === "cni" && keys.type === "multus-shim" && isGenerated;
  if (!isDaemons || typeof path !== "string" || !path.startsWith("/")) {
    return { keys: { clusterNetwork: path } };
  }
  const dir = path.slice(0, path.lastIndexOf("/"));
  return {
    keys: { primaryDir: dir },
    note: `left out: Multus's daemon found ${path} on this node and wrote its path. Plexus finds the primary CNI's file in ${dir} itself and follows its changes. If Multus's daemon-config.json has \`multusMasterCNI\`, give it to plexusctl migrate as well`,
  };
}

/** Multus looks for the file in the directory of the primary CNI's. */
function masterCni(value: Json, { keys, isGenerated, onHost }: Surroundings): Translation {
  if (!isGenerated) return { note: "left out: Multus uses it only to generate its configuration" };
  const given = keys.multusAutoconfigDir ?? keys["multus-autoconfig-dir"];
  const dir = typeof given === "string" && given !== "" ? given : "/host/etc/cni/net.d";
  return value === "" ? {} : { keys: { clusterNetwork: `${onHost(dir)}/${String(value)}` } };
}

function delegates(value: Json, surroundings: Surroundings): Translation {
  const { keys, kind, isGenerated } = surroundings;
  if (Array.isArray(value) && value.length === 0) return {};
  if (typeof keys.clusterNetwork === "string" && keys.clusterNetwork !== "") {
    return { note: "left out: Multus ignores it beside `clusterNetwork`" };
  }
  if (kind === "daemon" && isGenerated) {
    return { note: "left out: Multus's daemon generates a `clusterNetwork`, which overrides it" };
  }
  const [first, ...more] = Array.isArray(value) ? value : [];
  const name = isJsonObject(first) && typeof first.name === "string" ? first.name : "";
  const names = ["multus-cni-network", name];
  const isCopy = isGenerated && more.length === 0 && names.includes(String(keys.name));
  if (!isCopy) return { keys: { delegates: value } };
  return {
    note: `left out: it is the copy of the primary CNI's configuration${name && ` "${name}"`} that Multus's entry point wrote. Plexus finds the primary CNI's own file in ${defaultPaths.cniConfDir} and follows its changes; if you wrote it by hand, put it under \`delegates\``,
  };
}

function defaultNetworks(value: Json, { keys }: Surroundings): Translation {
  if (Array.isArray(value) && value.length === 0) return {};
  if (Array.isArray(keys.delegates) && keys.clusterNetwork === undefined) {
    return {
      note: "left out: Multus uses it only with `clusterNetwork`, Plexus always. Add it if you want these networks",
    };
  }
  return { keys: { defaultNetworks: value } };
}

const logLevels: Readonly<Record<string, string>> = {
  panic: "error",
  error: "error",
  verbose: "info",
  debug: "debug",
};

function logLevel(value: Json): Translation {
  const level = typeof value === "string" ? logLevels[value.toLowerCase()] : undefined;
  if (level !== undefined) return { keys: { logLevel: level } };
  return { note: `${JSON.stringify(value)} is not a level of Multus; the default is info` };
}
