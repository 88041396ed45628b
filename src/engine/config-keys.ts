import * as z from "zod";
import { isPlainName } from "#cni/names.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";
import type { ConfigKeys } from "./config-table.ts";

export const nonEmptyText = () => z.string().min(1, { error: "must not be empty" });

export const absolutePath = () =>
  z.string().refine((path) => path.startsWith("/") && !path.includes("\0"), {
    error: "must be an absolute path",
  });

export const milliseconds = () => z.int().min(1, { error: "must be at least 1" });
export const pause = () => z.int().min(0);

const texts = () => z.array(nonEmptyText()).readonly();
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
    excludes: "clusterNetwork",
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
  multusNamespace: {
    schema: nonEmptyText,
    excludes: "plexusNamespace",
    description: "Multus's name for `plexusNamespace`. Set only one of them.",
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
  invalidAnnotation: {
    schema: () => z.enum(["ignore", "fail"]),
    default: "ignore",
    description:
      "A pod with an invalid networks annotation. `ignore`: it starts with the default network only. `fail`: it does not start.",
  },
  strictness: {
    schema: () => z.enum(["standard", "multus"]),
    default: "standard",
    description:
      "The default of the next three keys. `standard`: `fail`, so that the pod does not start, as the standards require. `multus`: the other value. `plexusctl migrate` sets `multus`.",
  },
  undeclaredRequests: {
    schema: () => z.enum(["fail", "cniArgs"]),
    description:
      "A requested `mac` or `ips` that no plugin of the network declares as a capability. `cniArgs`: plugins get it only in `CNI_ARGS`, which many of them read.",
  },
  ignoredRequests: {
    schema: () => z.enum(["fail", "warn"]),
    description:
      "A request that the network ignores: the result has another address, MAC, interface or device, or no plugin declares the requested `portMappings`, `bandwidth` or `infiniband-guid`. `warn`: the pod starts, and the event `IgnoredRequest`, the log, the status (`plexus.dev/ignored-requests`) and `plexusctl explain` name the request.",
  },
  missingDevice: {
    schema: () => z.enum(["fail", "warn"]),
    description:
      "A pod without a device for a network whose definition has `k8s.v1.cni.cncf.io/resourceName`. `warn`: the plugins run without a device.",
  },
  auxiliaryCNIChainName: {
    schema: () =>
      z
        .string()
        .refine(isPlainName, { error: "must be the name of a network, and of a directory" }),
    description:
      "Name of an additional network for every pod. Its plugins are the `*.conf` files in the directory of this name, next to the file whose path is `clusterNetwork`. Without such files, pods do not get it.",
  },
  checkDelegates: {
    schema: () => z.enum(["defaultNetwork", "all"]),
    default: "defaultNetwork",
    description:
      "Networks whose plugins a CHECK calls. Plexus verifies the record, interfaces and addresses of every attachment. With CRI-O, a pod does not start if CHECK fails.",
  },
  markerResources: {
    schema: () => z.array(markerResource()).readonly(),
    default: [
      "bridge.network.kubevirt.io/*",
      "ovs-cni.network.kubevirt.io/*",
      "networks.plexus.dev/*",
    ],
    description:
      "[Resources without devices](devices.md#resources-without-devices). A final `*` stands for any text. Your list replaces the default.",
  },
} as const satisfies ConfigKeys;

/** Keys that became part of another one, and what to write instead. */
export const formerKeys: Readonly<Record<string, string>> = {
  hotPlugNamespaces: "hotPlug: [NAMESPACE]",
  heal: "inspect: [interfaces] or [heal]",
  watchAddresses: "inspect: [addresses]",
  missingPluginGraceMs: "delGraceMs",
  failedAddGraceMs: "delGraceMs",
};

/** The keys of the engine: {@link networkKeys}, and what only plexusd's file can say. */
export const engineKeys = {
  ...networkKeys,
  delegateTimeoutMs: {
    schema: budget,
    default: 60_000,
    description:
      "Timeout of one plugin, after which Plexus kills its process group. All plugins of a STATUS or GC have ten seconds.",
  },
  delBudgetMs: {
    schema: budget,
    default: 100_000,
    description:
      "Timeout of all plugins of one DEL together. Each network gets an equal share of the remaining time, so that a plugin that hangs leaves some for the others.",
  },
  delGraceMs: {
    schema: () => pause().max(86_400_000),
    default: 300_000,
    description:
      "Grace period for an attachment whose interface is gone, and of which only plugins are left that cannot be executed, or that ended the ADD with an error and fail in DEL too. It starts with the first DEL or rollback that finds this. Until it ends, the DEL fails and the runtime retries; then Plexus gives the attachment up, with an event.",
  },
  publishStatus: {
    schema: () => z.enum(["beforeReply", "required", "afterReply"]),
    default: "beforeReply",
    description:
      "Whether the ADD of a pod whose annotations request networks waits until `network-status` is written. `beforeReply`: at most `statusWaitMs`, and not while the API server is known to be unavailable. Then the pod starts, and gets the event `StatusLate`. `required`: the ADD fails instead, for clusters with network policies. `afterReply`: no ADD waits. Other pods never wait. plexusd retries failed writes to the API.",
  },
  statusOf: {
    schema: () => z.enum(["all", "requested"]),
    default: "all",
    description:
      "Which pods get `network-status` and the event `AddedInterface`. `all`: every pod, as with Multus. `requested`: pods whose annotations request networks or a default network, and pods with `defaultNetworks` or further `delegates`. A pod that already shows a status still gets a new one with each new sandbox. All pods get events about problems.",
  },
  hotPlug: {
    schema: () =>
      z.union([z.boolean(), texts()], { error: "expected true, false, or a list of namespaces" }),
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
