import * as z from "zod";
import { limits } from "#cni/limits.ts";
import { isPlainName } from "#cni/names.ts";
import { dnsLabelProblem } from "#lib/dns-name.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { tryParseNetwork } from "#lib/ip.ts";
import { isJsonObject, type Json, type JsonObject, objectOf } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { ConfigKeys } from "./config-table.ts";

export const nonEmptyText = () => z.string().min(1, { error: "must not be empty" });

export const absolutePath = () =>
  z.string().regex(/^\/+[^/\0][^\0]*$/, { error: "must be an absolute path, and not /" });

export const milliseconds = () => z.int().min(1, { error: "must be at least 1" });
const pause = () => z.int().min(0);

const texts = () => z.array(nonEmptyText()).readonly();
export const namespace = () =>
  nonEmptyText().refine((text) => dnsLabelProblem(text) === undefined, {
    error: "must be the name of a namespace",
  });
export const namespaces = () => z.array(namespace()).readonly();
const budget = () =>
  milliseconds().max(210_000, { error: "must be below the kubelet's 4 minutes" });

/** Rejects YAML numbers that JSON would print as null: `.inf`, `.nan`, `1e400`. */
const finiteJson = () =>
  z.custom<Json>().superRefine((value, ctx) => {
    for (const path of infiniteNumbers(value))
      ctx.addIssue({ code: "custom", path, message: "the number is out of range" });
  });

const confObject = () => z.record(z.string(), finiteJson()) as z.ZodType<JsonObject>;

/** The paths of the numbers that JSON would print as null. */
function infiniteNumbers(value: unknown): (string | number)[][] {
  if (typeof value === "number") return Number.isFinite(value) ? [] : [[]];
  if (typeof value !== "object" || value === null) return [];
  const isList = Array.isArray(value);
  return Object.entries(value).flatMap(([key, each]) =>
    infiniteNumbers(each).map((path) => [isList ? Number(key) : key, ...path]),
  );
}

/** A list, or Multus's form: one string with commas. */
const namespaceList = () =>
  z.union([texts(), z.string().transform(splitAtCommas)], {
    error: "expected a list of namespaces, or one string with commas between them",
  });

function splitAtCommas(list: string): readonly string[] {
  const items = list.split(",").map((item) => item.trim());
  return items.filter((item) => item !== "");
}

const markerResource = () =>
  z.string().regex(/^[^/*\s]+\/[^*\s]*\*?$/, {
    error: "must be a resource (DOMAIN/NAME), or the beginning of one with / and a final *",
  });

/** The name of a definition in `plexusNamespace`, or of a network in `confDir`. */
const networkName = () =>
  z.string().refine(isPlainName, { error: "must be the name of a network" });

const attachmentPolicy = () =>
  z.union([z.enum(["trusted", "restricted"]), z.array(networkName()).readonly()], {
    error: "must be trusted, restricted, or a list of the types of plugins",
  });

const namespacePattern = () =>
  z.string().regex(/^(?:[a-z0-9][-a-z0-9]*)?\*?$/, {
    error: "must be the name of a namespace, or the beginning of one with a final *",
  });

const namespaceRule = () =>
  z.strictObject({
    name: nonEmptyText(),
    namespaces: z.array(namespacePattern().min(1)).min(1).readonly(),
    attachmentPolicy: attachmentPolicy().exactOptional(),
    clusterNetwork: networkName().exactOptional(),
    defaultNetworks: z
      .array(networkName())
      .max(limits.networks.max - 1)
      .readonly()
      .exactOptional(),
  });

export const clusterRangesMax = 64;

/** Whether a text is a network that can be part of a cluster. */
export function isClusterRange(text: string): boolean {
  return (tryParseNetwork(text)?.prefix ?? 0) > 0;
}

const clusterRange = () =>
  z.string().refine(isClusterRange, {
    error: "must be a network of the cluster, without host bits: 10.244.0.0/16",
  });

/**
 * The keys of plexusd's file that the runtime's conf may also have. Multus's keys among them mean
 * the same.
 */
export const networkKeys = {
  clusterNetwork: {
    schema: nonEmptyText,
    accepts: (value) => typeof value === "string" && value !== "",
    description:
      "The default network: the name of a NetworkAttachmentDefinition in `plexusNamespace`, the CNI name of a network in `confDir`, or the path of a file or directory. Plexus treats a file as the primary CNI's. Default: the primary CNI.",
  },
  delegates: {
    schema: () => z.array(confObject()).readonly(),
    accepts: (value) =>
      Array.isArray(value) && value.every(isJsonObject) && infiniteNumbers(value).length === 0,
    default: [],
    description:
      "Inline CNI configurations instead of `clusterNetwork`: every pod gets all of them, the first as the default network. An empty list counts as absent.",
  },
  defaultNetworks: {
    schema: texts,
    default: [],
    description:
      "Networks for every pod outside `systemNamespaces`, named like `clusterNetwork`. If a pod's annotation names one of them, the pod gets it only as the annotation requests it.",
  },
  systemNamespaces: {
    schema: texts,
    default: ["kube-system"],
    description: "Pods in these namespaces do not get `defaultNetworks`.",
  },
  plexusNamespace: {
    schema: nonEmptyText,
    default: "kube-system",
    description: "Namespace of the NetworkAttachmentDefinitions that this configuration names.",
  },
  namespaceIsolation: {
    schema: () => z.boolean(),
    default: false,
    description:
      "Limits pods to NetworkAttachmentDefinitions in their namespace and in `globalNamespaces`.",
  },
  globalNamespaces: {
    schema: namespaceList,
    default: ["default"],
    description:
      "Namespaces whose definitions every pod may use with `namespaceIsolation`. A string separates them with commas.",
  },
  confDir: {
    schema: absolutePath,
    default: defaultPaths.confDir,
    description: "Directory where Plexus finds configurations by their CNI name.",
  },
  binDir: {
    schema: absolutePath,
    description:
      "Plugin directory that is searched before the container runtime's directories. The host's `/etc/plexus/plugin-dirs` must list it. A new pod of plexusd adds it there, so restart the DaemonSet after a change (the chart does). Only root may be able to write there.",
  },
  readinessindicatorfile: {
    schema: () =>
      z.union([absolutePath(), z.literal("")], { error: "must be an absolute path, or empty" }),
    description:
      "File that the primary CNI creates when it is ready. Until it exists, no pod is attached, and plexusd does not write the node's CNI configuration for the first time.",
  },
  strictness: {
    schema: () => z.enum(["standard", "multus"]),
    default: "standard",
    description:
      "A pod that does not get what it requests. `standard`: it does not start, as the standards require. `multus`, which `plexusctl migrate` sets: it starts, as with Multus. Plugins get a requested `mac` or `ips` that none of them declares as a capability only in `CNI_ARGS`, which many of them read. The event `IgnoredRequest`, the log, the status (`plexus.dev/ignored-requests`) and `plexusctl explain` name requests that the network ignores: the result has another address, MAC, interface or device, or no plugin declares the requested `portMappings`, `bandwidth` or `infiniband-guid`. Without a device for the definition's `k8s.v1.cni.cncf.io/resourceName`, the plugins run without one.",
  },
  auxiliaryCNIChainName: {
    schema: () =>
      z
        .string()
        .refine(isPlainName, { error: "must be the name of a network, and of a directory" }),
    description:
      "Name of an additional network for every pod. Its plugins are the `*.conf` files in the directory of this name, next to the file whose path is `clusterNetwork`. Without such files, or with an unusable one, pods do not get it; `doctor` names that file.",
  },
  checkDelegates: {
    schema: () => z.enum(["defaultNetwork", "all"]),
    default: "defaultNetwork",
    description:
      "Networks whose plugins a CHECK calls. Plexus verifies the record, interfaces and addresses of every attachment. With CRI-O, a pod does not start if CHECK fails.",
  },
  markerResources: {
    schema: () => z.array(markerResource()).readonly(),
    default: ["bridge.network.kubevirt.io/*", "ovs-cni.network.kubevirt.io/*"],
    description:
      "[Resources without devices](devices.md#resources-without-devices). A final `*` stands for any text. Your list replaces the default.",
  },
} as const satisfies ConfigKeys;

/** Former keys and the values with which a pod started that now needs `strictness: multus`. */
const lenient = { ignoredRequests: "warn", missingDevice: "warn", undeclaredRequests: "cniArgs" };
const byStrictness = "use strictness; while that is not set, warn and cniArgs mean multus";

/** Keys that are gone, and what applies now; for one release, they are no error. */
export const formerKeys: Readonly<Record<string, string>> = {
  attachmentInfo: "plexus_attachment_info always has the pods' interfaces",
  delBudgetMs: "all plugins of a DEL have 50 seconds together",
  failedAddGraceMs: "use delGraceMs",
  heal: "use inspect: [interfaces] or [heal]",
  hotPlugNamespaces: "use hotPlug: [NAMESPACE]",
  http: "use plexusd's flag --http",
  ignoredRequests: byStrictness,
  invalidAnnotation: "a pod with an invalid annotation starts with the default network only",
  kubeletDir: "mount the kubelet's directory at /var/lib/kubelet",
  metricsAddress: "use plexusd's flag --metrics, or metrics.enabled in the chart",
  missingDevice: byStrictness,
  missingPluginGraceMs: "use delGraceMs",
  multusNamespace: "it still means plexusNamespace, so use that",
  primary:
    "its dir still means primaryDir, so use that; for another file, set clusterNetwork to its path",
  standaloneLingerMs: "plexus-standalone stays for ten seconds",
  statusOf: "every pod gets network-status and the event AddedInterface",
  statusWaitMs: "an ADD waits for network-status for twice apiTimeoutMs",
  undeclaredRequests: byStrictness,
  watchAddresses: "use inspect: [addresses]",
};

/** Values without {@link formerKeys}, except for what pods would not start without. */
export function withoutFormerKeys(values: JsonObject): JsonObject {
  const current = Object.entries(values).filter(([key]) => !Object.hasOwn(formerKeys, key));
  const { multusNamespace: plexusNamespace, primary } = values;
  const { dir: primaryDir } = objectOf(primary);
  const isLenient = Object.entries(lenient).some(([key, value]) => values[key] === value);
  const strictness = isLenient ? "multus" : undefined;
  const still = omitUndefined({ plexusNamespace, primaryDir, strictness });
  return { ...still, ...Object.fromEntries(current) };
}

/** The keys of the engine: {@link networkKeys}, and what only plexusd's file can say. */
export const engineKeys = {
  ...networkKeys,
  attachmentPolicy: {
    schema: attachmentPolicy,
    default: "trusted",
    description:
      "What definitions outside `plexusNamespace` [may contain](tenants.md#what-definitions-may-contain): anything (`trusted`), or only plugins and keys that change nothing of the node (`restricted`); a list names other plugins for `restricted`.",
  },
  byNamespace: {
    schema: () => z.array(namespaceRule()).readonly(),
    default: [],
    description:
      "[Rules for namespaces](tenants.md#rules-for-namespaces), each with a `name` and `namespaces` (names, or beginnings with a final `*`): the `attachmentPolicy` of definitions there, and `clusterNetwork` and `defaultNetworks` of pods there. Of each of the three, the first rule that has it counts.",
  },
  delegateTimeoutMs: {
    schema: budget,
    default: 60_000,
    description:
      "Timeout of one plugin, after which Plexus kills its process group. All plugins of a STATUS or GC have ten seconds, those of a DEL 50: each network gets an equal share of the remaining time, so that a plugin that hangs leaves some for the others.",
  },
  delGraceMs: {
    schema: () => pause().max(86_400_000),
    default: 300_000,
    description:
      "Grace period for an attachment whose interface is gone, if each plugin that is left cannot be executed, or failed in the ADD and fails in the DEL too. It starts with the first DEL or rollback that finds this. Until it ends, the DEL fails and the runtime retries; then Plexus gives the attachment up, with an event.",
  },
  publishStatus: {
    schema: () => z.enum(["beforeReply", "required", "afterReply"]),
    default: "beforeReply",
    description:
      "Whether the ADD of a pod whose annotations request networks waits until `network-status` is written. `beforeReply`: at most twice `apiTimeoutMs`, 20 s at most, and not while the API server is known to be unavailable. Then the pod starts, and gets the event `StatusLate`. `required`: the ADD fails instead, for clusters with network policies. `afterReply`: no ADD waits. Other pods never wait. plexusd retries failed writes to the API.",
  },
  clusterRoutes: {
    schema: () => z.array(clusterRange()).max(clusterRangesMax).readonly(),
    default: [],
    description:
      "Ranges of the cluster's pods, to which a pod with further networks [keeps its routes](networks.md#default-route-that-keeps-the-cluster), and those to Services and the node. Earlier releases cannot read the records of such pods.",
  },
  hotPlug: {
    schema: () =>
      z.union([z.boolean(), namespaces()], {
        error: "expected true, false, or a list of namespaces",
      }),
    default: false,
    description:
      "Whether an edit of a running pod's networks annotation [plugs and unplugs networks](hot-plug.md): of all pods (`true`), or in a list of namespaces. Needs `plexus agent --attach` on the node. Releases without hot-plug cannot read the records that are written with it.",
  },
  inspect: {
    schema: () => z.array(z.enum(["interfaces", "heal", "addresses"])).readonly(),
    default: [],
    description:
      "What the agent looks at in running pods, every minute. `interfaces`, `heal`: [lost interfaces](hot-plug.md#lost-interfaces). `addresses`: [addresses that change](hot-plug.md#addresses-that-change). Needs `plexus agent --attach` on the node.",
  },
} as const satisfies ConfigKeys;
