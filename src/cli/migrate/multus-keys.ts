import { defaultPaths } from "#lib/files/default-paths.ts";
import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";

interface Translation {
  /** Keys of Plexus's configuration; nested ones are written `primary.conf`. */
  readonly keys?: JsonObject;
  /** Why there is no counterpart or what differs, and what to do. */
  readonly note?: string;
}

/** Translates the value of one key; `all` are the keys beside it. */
type Translate = (value: Json, all: JsonObject) => Translation;

const same =
  (key: string): Translate =>
  (value) => ({ keys: { [key]: value } });

const note =
  (text: string): Translate =>
  () => ({ note: text });

/** Keys of CNI, and keys that the runtime writes: they need no counterpart. */
const silent: Translate = () => ({});

const logging = note("Plexus logs to stderr: read it with kubectl logs; the kubelet rotates it");
const socket = note("not needed: the socket is /run/plexus/plexus.sock");

/** Every key that Multus 4.3 reads, for CNI or for its daemon, and its counterpart. */
export const translations: Readonly<Record<string, Translate>> = {
  cniVersion: silent,
  name: silent,
  type: silent,
  prevResult: silent,
  runtimeConfig: silent,
  clusterNetwork: (value) => ({ keys: { clusterNetwork: onHost(value) } }),
  delegates: translateDelegates,
  defaultNetworks: translateDefaultNetworks,
  systemNamespaces: same("systemNamespaces"),
  multusNamespace: same("plexusNamespace"),
  namespaceIsolation: same("namespaceIsolation"),
  globalNamespaces: same("globalNamespaces"),
  confDir: (value) => ({
    keys: { confDir: onHost(value) },
    note: "mount the directory into plexusd's container at the same path",
  }),
  binDir: (value) => ({
    keys: { binDir: onHost(value) },
    note: "/etc/plexus/plugin-dirs on the host must list it (plexusctl install does that), and only root may write there",
  }),
  readinessindicatorfile: (value) => ({
    keys: { readinessindicatorfile: onHost(value) },
    note: "mount its directory into plexusd's container at the same path",
  }),
  capabilities: same("capabilities"),
  multusMasterCNI: (value) => (value === "" ? {} : { keys: { "primary.conf": value } }),
  multusAutoconfigDir: (value) => withoutDefault("primary.dir", onHost(value)),
  cniConfigDir: (value) => withoutDefault("cniConfDir", onHost(value)),
  logLevel: translateLogLevel,
  logFile: logging,
  logOptions: logging,
  logToStderr: silent,
  kubeconfig: note(
    "plexusd uses its service account. Only plexus-standalone on nodes without plexusd reads `kubeconfig`, from the CNI configuration (docs/operations/standalone.md)",
  ),
  cniDir: note(
    "state is in /var/lib/plexus. The state of pods that Multus attached is in this directory: docs/user/migration.md describes their teardown",
  ),
  retryDeleteOnError: note("always on: Plexus keeps a record until every network is detached"),
  allowTryDeleteOnErr: note("always on: Plexus keeps a record until every network is detached"),
  socketDir: socket,
  daemonSocketDir: socket,
  chrootDir: note(
    "not needed: the plugins run on the host, as the container runtime would run them",
  ),
  multusConfigFile: translateConfigFile,
  forceCNIVersion: note("not needed: the primary CNI's own file is never changed"),
  overrideNetworkName: silent,
  perNodeCertificate: note(
    "plexusd's token is short-lived and of its service account; deploy/base/admission-policy.yaml limits it to its own node",
  ),
  connectionLimit: note("not needed: the limits on everything a call can cost are built in"),
  metricsPort: note(
    "metrics are served at `http` (127.0.0.1:19500), not on every address of the node: docs/user/configuration.md",
  ),
  enablePprof: note("there is no profiling port"),
};

/** Keys that make Plexus as lenient as Multus, so that existing definitions and pods work. */
export const multusRules: Readonly<Record<string, { value: Json; note: string }>> = {
  undeclaredRequests: {
    value: "cniArgs",
    note: "definitions that declare no capabilities get mac and ips in CNI_ARGS alone. Remove this key once they declare them",
  },
  ignoredRequests: {
    value: "warn",
    note: "pods start although a network ignores a request. Events with the reason IgnoredRequest name them; remove this key once there are none",
  },
  missingDevice: {
    value: "warn",
    note: "pods start without a device that a definition's resourceName names, as with the markers of ovs-cni and bridge. Events with the reason DeviceNotAllocated name them; remove this key once there are none",
  },
};

/** The host's path of a path in Multus's container, which mounts the host at /host. */
function onHost(value: Json): Json {
  return typeof value === "string" && value.startsWith("/host/")
    ? value.slice("/host".length)
    : value;
}

function withoutDefault(key: string, value: Json): Translation {
  return value === "" || value === defaultPaths.cniConfDir ? {} : { keys: { [key]: value } };
}

function translateDelegates(value: Json, all: JsonObject): Translation {
  if (Array.isArray(value) && value.length === 0) return {};
  if (typeof all.clusterNetwork === "string" && all.clusterNetwork !== "") {
    return { note: "left out: Multus ignores it beside `clusterNetwork`" };
  }
  const isGenerated =
    Array.isArray(value) && value.length === 1 && all.name === "multus-cni-network";
  if (!isGenerated) return { keys: { delegates: value } };
  return {
    note: `left out: it is the copy of the primary CNI's configuration${nameOf(value[0])} that Multus's entry point wrote. Plexus finds the primary CNI's own file in ${defaultPaths.cniConfDir} and follows its changes; if you wrote it by hand, put it under \`delegates\``,
  };
}

function nameOf(conf: Json | undefined): string {
  return isJsonObject(conf) && typeof conf.name === "string" ? ` "${conf.name}"` : "";
}

function translateDefaultNetworks(value: Json, all: JsonObject): Translation {
  if (Array.isArray(value) && value.length === 0) return {};
  if (Array.isArray(all.delegates) && all.clusterNetwork === undefined) {
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

function translateLogLevel(value: Json): Translation {
  const level = typeof value === "string" ? logLevels[value] : undefined;
  if (level !== undefined) return { keys: { logLevel: level } };
  return { note: `${JSON.stringify(value)} is not a level of Multus; the default is info` };
}

function translateConfigFile(value: Json): Translation {
  if (value === "auto") return {};
  return {
    note: "plexusd writes the node's configuration: put the keys of that file into this one (give it to plexusctl migrate as well)",
  };
}
