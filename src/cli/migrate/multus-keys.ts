import { defaultPaths } from "#lib/files/default-paths.ts";
import { isJsonObject, type Json } from "#lib/json.ts";
import {
  ifOn,
  isOn,
  type MigrationNote,
  note,
  onHost,
  type Surroundings,
  same,
  silent,
  type Translate,
  type Translation,
  unlessEmpty,
} from "./translation.ts";

const socket = note("not needed: the socket is /run/plexus/plexus.sock");
const unusedByMultus = note("left out: Multus does not use it in its own configuration either");
const logging = note("Plexus logs to stderr: read it with kubectl logs; the kubelet rotates it");

/** Every key that Multus 4.3 reads, for CNI or for its daemon, and its counterpart. */
export const keyTranslations = {
  cniVersion: silent,
  name: silent,
  type: silent,
  prevResult: silent,
  runtimeConfig: silent,
  "cni.dev/valid-attachments": silent,
  ipam: unusedByMultus,
  dns: unusedByMultus,
  clusterNetwork: translateClusterNetwork,
  delegates: translateDelegates,
  defaultNetworks: translateDefaultNetworks,
  systemNamespaces: same("systemNamespaces"),
  multusNamespace: same("plexusNamespace"),
  namespaceIsolation: same("namespaceIsolation"),
  globalNamespaces: same("globalNamespaces"),
  auxiliaryCNIChainName: unlessEmpty(same("auxiliaryCNIChainName")),
  confDir: onHost("confDir"),
  cniConf: note(
    "left out: Multus's entry point writes this key, but Multus 4.3 does not read it. It reads definitions without spec.config from `confDir`",
  ),
  binDir: translateBinDir,
  readinessindicatorfile: onHost("readinessindicatorfile"),
  capabilities: same("capabilities"),
  multusMasterCNI: unlessEmpty(same("primary.conf")),
  multusAutoconfigDir: onHost("primary.dir"),
  cniConfigDir: onHost("cniConfDir"),
  logLevel: translateLogLevel,
  logFile: logging,
  logOptions: logging,
  logToStderr: (value: Json, rest: Surroundings) =>
    isOn(value) === false ? logging(value, rest) : {},
  kubeconfig: note(
    "plexusd uses its service account. Only plexus-standalone on nodes without plexusd reads `kubeconfig`, from the CNI configuration (docs/operations/standalone.md)",
  ),
  cniDir: note(
    "state is in /var/lib/plexus. The state of pods that Multus attached is in this directory: docs/user/migration.md describes their teardown",
  ),
  retryDeleteOnError: note("always on: Plexus keeps a record until every network is detached"),
  socketDir: socket,
  daemonSocketDir: socket,
  chrootDir: note(
    "not needed: the plugins run on the host, as the container runtime would run them",
  ),
  multusConfigFile: translateConfigFile,
  forceCNIVersion: ifOn(note("not needed: the primary CNI's own file is never changed")),
  overrideNetworkName: ifOn(
    note("not needed: the node's configuration always has the primary CNI's network name"),
  ),
  perNodeCertificate: note(
    "plexusd's token is short-lived and of its service account; deploy/base/admission-policy.yaml limits it to its own node",
  ),
  connectionLimit: note("not needed: the limits on everything a call can cost are built in"),
  metricsPort: note(
    "metrics are served at `http` (127.0.0.1:19500), not on every address of the node: docs/user/configuration.md",
  ),
  enablePprof: ifOn(note("there is no profiling port")),
} satisfies Readonly<Record<string, Translate>>;

/** Why every result has `strictness: multus`, and until when. */
export const strictnessNote: MigrationNote = {
  source: "Plexus's default is standard",
  key: "strictness",
  note: "pods start although their networks do not declare or ignore a request, or lack a device. Declare capabilities, and add resources without devices to markerResources; remove this key when no event IgnoredRequest or DeviceNotAllocated is left (docs/user/migration.md#requests-that-a-network-ignores)",
};

/** Multus's daemon writes the path of the primary CNI's file, which tells its directory. */
function translateClusterNetwork(value: Json, surroundings: Surroundings): Translation {
  const { kind, keys, isGenerated, onHost: toHost } = surroundings;
  if (value === "") return {};
  const path = typeof value === "string" ? toHost(value) : value;
  const isDaemons = kind === "cni" && keys.type === "multus-shim" && isGenerated;
  if (!isDaemons || typeof path !== "string" || !path.startsWith("/")) {
    return { keys: { clusterNetwork: path } };
  }
  const dir = path.slice(0, path.lastIndexOf("/"));
  return {
    keys: { "primary.dir": dir },
    note: `left out: Multus's daemon found ${path} on this node and wrote its path. Plexus finds the primary CNI's file in ${dir} itself and follows its changes. If Multus's daemon-config.json has \`multusMasterCNI\`, give it to plexusctl migrate as well`,
  };
}

function translateDelegates(value: Json, surroundings: Surroundings): Translation {
  const { keys, kind, isGenerated } = surroundings;
  if (Array.isArray(value) && value.length === 0) return {};
  if (typeof keys.clusterNetwork === "string" && keys.clusterNetwork !== "") {
    return { note: "left out: Multus ignores it beside `clusterNetwork`" };
  }
  if (kind === "daemon" && isGenerated) {
    return { note: "left out: Multus's daemon generates a `clusterNetwork`, which overrides it" };
  }
  const [first, ...more] = Array.isArray(value) ? value : [];
  const names = ["multus-cni-network", nameOf(first)];
  const isCopy = isGenerated && more.length === 0 && names.includes(String(keys.name));
  if (!isCopy) return { keys: { delegates: value } };
  const name = nameOf(first);
  return {
    note: `left out: it is the copy of the primary CNI's configuration${name && ` "${name}"`} that Multus's entry point wrote. Plexus finds the primary CNI's own file in ${defaultPaths.cniConfDir} and follows its changes; if you wrote it by hand, put it under \`delegates\``,
  };
}

function nameOf(conf: Json | undefined): string {
  return isJsonObject(conf) && typeof conf.name === "string" ? conf.name : "";
}

function translateDefaultNetworks(value: Json, { keys }: Surroundings): Translation {
  if (Array.isArray(value) && value.length === 0) return {};
  if (Array.isArray(keys.delegates) && keys.clusterNetwork === undefined) {
    return {
      note: "left out: Multus uses it only with `clusterNetwork`, Plexus always. Add it if you want these networks",
    };
  }
  return { keys: { defaultNetworks: value } };
}

/** A plugin directory that is searched first. */
function translateBinDir(value: Json, surroundings: Surroundings): Translation {
  return {
    ...onHost("binDir")(value, surroundings),
    note: "/etc/plexus/plugin-dirs on the host must list it (plexusctl install does that), and only root may write there",
  };
}

const logLevels: Readonly<Record<string, string>> = {
  panic: "error",
  error: "error",
  verbose: "info",
  debug: "debug",
};

function translateLogLevel(value: Json): Translation {
  const level = typeof value === "string" ? logLevels[value.toLowerCase()] : undefined;
  if (level !== undefined) return { keys: { logLevel: level } };
  return { note: `${JSON.stringify(value)} is not a level of Multus; the default is info` };
}

function translateConfigFile(value: Json): Translation {
  if (value === "auto" || value === "") return {};
  return { note: "plexusd writes the node's configuration: the keys of that file are in this one" };
}
