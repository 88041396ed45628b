import { isIP } from "node:net";
import * as z from "zod";
import { defaultEngineConfig } from "#engine/config.ts";
import type { Json, JsonObject } from "#lib/json.ts";

/** What documentation says of a key besides its type. */
interface KeyMeta {
  readonly description: string;
  /** What holds when the key is absent; only told here, applied where the key is used. */
  readonly default?: Json;
  /** The key is read at start only. */
  readonly restart?: true;
}

const absolutePath = z.string().refine((path) => path.startsWith("/") && !path.includes("\0"), {
  error: "must be an absolute path",
});
const name = z.string().min(1, { error: "must not be empty" });
const fileName = name.refine((file) => !file.includes("/"), {
  error: "must be a file name, without a directory",
});
const milliseconds = z.int().min(1, { error: "must be at least 1" });
const confObject = z.record(z.string(), z.custom<Json>()) as z.ZodType<JsonObject>;

/** A list, or one string with commas between the items, as Multus has it. */
const namespaceList = z.union([z.array(name), z.string()], {
  error: "expected a list of namespaces, or one string with commas between them",
});

const listenAddress = z.string().refine(isListenAddress, {
  error: 'must be "off", or an IP address and a port: 127.0.0.1:19500, [::1]:19500',
});

function key<T extends z.ZodType>(type: T, meta: KeyMeta): T {
  return type.meta({ ...meta }) as T;
}

const primarySchema = z.strictObject({
  conf: key(fileName, {
    description:
      "File name of the primary CNI's configuration. Absent: the first usable file, in byte order, that is not a meta-plugin's.",
  }).exactOptional(),
  dir: key(absolutePath, {
    description:
      "Where the primary CNI writes its configuration, when that is not `cniConfDir`. With a directory of its own the container runtime sees no network before Plexus is there.",
    restart: true,
  }).exactOptional(),
  settleMs: key(z.int().min(0), {
    description:
      "How long the directory must have been unchanged before a primary is chosen for the first time, so that the first agent to start is not taken for the right one.",
    default: 3000,
  }).exactOptional(),
});

/** The configuration file as it is written; every key is optional. */
export const configSchema = z.strictObject({
  clusterNetwork: key(name, {
    description:
      "The default network: the name of a NetworkAttachmentDefinition in `plexusNamespace`, the CNI name of a network in `confDir`, or the path of a file or directory; a file is taken for the primary CNI's. Absent: the primary CNI that is found in the node's directory.",
  }).exactOptional(),
  delegates: key(z.array(confObject).min(1, { error: "must not be empty" }), {
    description:
      "CNI configurations inline instead of `clusterNetwork`: the first is the default network, all are attached to every pod.",
  }).exactOptional(),
  defaultNetworks: key(z.array(name), {
    description: "Networks for every pod outside `systemNamespaces`, named as `clusterNetwork` is.",
    default: [],
  }).exactOptional(),
  systemNamespaces: key(z.array(name), {
    description: "Pods in these namespaces do not get `defaultNetworks`.",
    default: [...defaultEngineConfig.systemNamespaces],
  }).exactOptional(),
  plexusNamespace: key(name, {
    description: "Namespace of the NetworkAttachmentDefinitions that this configuration names.",
    default: defaultEngineConfig.plexusNamespace,
  }).exactOptional(),
  multusNamespace: key(name, {
    description: "Multus's name of `plexusNamespace`; only one of them may be given.",
  }).exactOptional(),
  namespaceIsolation: key(z.boolean(), {
    description:
      "Pods may use NetworkAttachmentDefinitions of their own namespace and of `globalNamespaces` only.",
    default: defaultEngineConfig.namespaceIsolation,
  }).exactOptional(),
  globalNamespaces: key(namespaceList, {
    description:
      "Namespaces whose definitions every pod may use under `namespaceIsolation`: a list, or one string with commas.",
    default: [...defaultEngineConfig.globalNamespaces],
  }).exactOptional(),
  confDir: key(absolutePath, {
    description: "Where configurations are looked up by their CNI name.",
    default: defaultEngineConfig.confDir,
  }).exactOptional(),
  binDir: key(absolutePath, {
    description: "Searched for plugins before the directories that the container runtime names.",
  }).exactOptional(),
  readinessindicatorfile: key(z.union([absolutePath, z.literal("")]), {
    description:
      "A file that the primary CNI writes when it is ready: without it no pod is attached, and the node's configuration is not written for the first time.",
  }).exactOptional(),
  capabilities: key(z.record(z.string(), z.boolean()), {
    description:
      "Capabilities for the node's configuration beside those of the primary CNI; `false` leaves one out.",
    default: {},
  }).exactOptional(),
  invalidAnnotation: key(z.enum(["ignore", "fail"]), {
    description:
      "What becomes of a pod whose networks annotation cannot be read: it starts with the default network only, or not at all.",
    default: defaultEngineConfig.invalidAnnotation,
  }).exactOptional(),
  delegateTimeoutMs: key(
    milliseconds.max(210_000, { error: "must be below the kubelet's 4 minutes" }),
    {
      description: "A delegate that takes longer is killed with its process group.",
      default: defaultEngineConfig.delegateTimeoutMs,
    },
  ).exactOptional(),
  apiTimeoutMs: key(milliseconds, {
    description:
      "How long a live read of the API may take before the runtime is told to try again.",
    default: 5000,
    restart: true,
  }).exactOptional(),
  statusWaitMs: key(z.int().min(0), {
    description:
      "How long an attached pod waits for its network-status annotation; after that it is written behind the call.",
    default: 2000,
    restart: true,
  }).exactOptional(),
  http: key(listenAddress, {
    description: "Where /healthz, /readyz and /metrics are served: address and port, or `off`.",
    default: "127.0.0.1:19500",
    restart: true,
  }).exactOptional(),
  logLevel: key(z.enum(["debug", "info", "warn", "error"]), {
    description: "The least severe level that is logged.",
    default: "info",
  }).exactOptional(),
  cniConfDir: key(absolutePath, {
    description:
      "The container runtime's configuration directory, in which `00-plexus.conflist` is written. The same path on the host and in the container.",
    default: "/etc/cni/net.d",
    restart: true,
  }).exactOptional(),
  cniBinDir: key(absolutePath, {
    description:
      "The container runtime's plugin directory, in which the primary CNI's plugins must be.",
    default: "/opt/cni/bin",
  }).exactOptional(),
  primary: primarySchema
    .meta({ description: "How the primary CNI's configuration is found." })
    .exactOptional(),
});

/** The file's content once it is known to be right. */
export type ConfigFile = z.infer<typeof configSchema>;

function isListenAddress(text: string): boolean {
  return text === "off" || parseListenAddress(text) !== undefined;
}

/** Address and port of `127.0.0.1:19500` or `[::1]:19500`; undefined when it is neither. */
export function parseListenAddress(text: string): { host: string; port: number } | undefined {
  const match = /^(?:\[([^\]]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2] ?? "";
  const port = Number(match?.[3]);
  const family = match?.[1] === undefined ? 4 : 6;
  return isIP(host) === family && port <= 65_535 ? { host, port } : undefined;
}
