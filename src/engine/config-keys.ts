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

function isFiniteObject(value: Json): boolean {
  return isJsonObject(value) && infiniteNumbers(value).length === 0;
}

/** A list, or Multus's form: one string with commas. */
const namespaceList = () =>
  z.union([texts(), z.string().transform(splitAtCommas)], {
    error: "expected a list of namespaces, or one string with commas between them",
  });

function splitAtCommas(list: string): readonly string[] {
  return list
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
}

const markerResource = () =>
  z.string().regex(/^[^/*\s]+\/[^*\s]*\*?$/, {
    error: "must be a resource (DOMAIN/NAME), or the beginning of one with / and a final *",
  });

/**
 * The keys of plexusd's file that the runtime's conf may also have; those that Multus has mean the
 * same.
 */
export const networkKeys = {
  clusterNetwork: {
    schema: nonEmptyText,
    accepts: (value) => typeof value === "string" && value !== "",
    description:
      "The default network: the name of a NetworkAttachmentDefinition in `plexusNamespace`, the CNI name of a network in `confDir`, or the path of a file or directory. Plexus treats a file as the primary CNI's. Default: the primary CNI in the node's directory.",
  },
  delegates: {
    schema: () => z.array(confObject()).readonly(),
    accepts: (value) => Array.isArray(value) && value.every(isFiniteObject),
    excludes: "clusterNetwork",
    default: [],
    description:
      "Inline CNI configurations, as an alternative to `clusterNetwork`. The first is the default network, and every pod gets all of them. An empty list counts as absent.",
  },
  defaultNetworks: {
    schema: texts,
    default: [],
    description:
      "Networks for every pod outside `systemNamespaces`, named like `clusterNetwork`. If a pod's annotation names the definition of one, the pod gets it only as the annotation requests it.",
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
      "Namespaces whose definitions every pod may use with `namespaceIsolation`: a list, or one string with commas.",
  },
  confDir: {
    schema: absolutePath,
    default: defaultPaths.confDir,
    description: "Directory where Plexus finds configurations by their CNI name.",
  },
  binDir: {
    schema: absolutePath,
    description:
      "Plugin directory that is searched before the container runtime's directories. The shim rejects its plugins unless the host's `/etc/plexus/plugin-dirs` lists it. `plexusctl install` adds it when plexusd's pod is created, so restart the DaemonSet after a change (the Helm chart does). Only root may be able to write there.",
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
      "How a pod with an invalid networks annotation is handled. `ignore`: it starts with the default network only. `fail`: it does not start.",
  },
  strictness: {
    schema: () => z.enum(["standard", "multus"]),
    default: "standard",
    description:
      "The defaults of `undeclaredRequests`, `ignoredRequests` and `missingDevice`. `standard`: pods fail where the standards require it. `multus`: they start as with Multus. `plexusctl migrate` sets `multus`.",
  },
  undeclaredRequests: {
    schema: () => z.enum(["fail", "cniArgs"]),
    description:
      "How a requested `mac` or `ips` is handled if no plugin of the network declares the capability. `fail` (`standard`): the pod does not start. `cniArgs` (`multus`): plugins get it only as `MAC` and `IP` in `CNI_ARGS`, which many of them read.",
  },
  ignoredRequests: {
    schema: () => z.enum(["fail", "warn"]),
    description:
      "How a request is handled if the network ignores it: the result has another address, MAC, interface or device, or no plugin declares the requested `portMappings`, `bandwidth` or `infiniband-guid`. `fail` (`standard`): the pod does not start. `warn` (`multus`): the pod starts, and the event `IgnoredRequest`, the log, the status (`plexus.dev/ignored-requests`) and `plexusctl explain` name the request.",
  },
  missingDevice: {
    schema: () => z.enum(["fail", "warn"]),
    description:
      "How a pod is handled that has no allocated device for a network with the annotation `k8s.v1.cni.cncf.io/resourceName`. `fail` (`standard`): it does not start. `warn` (`multus`): the network's plugins run without a device.",
  },
  auxiliaryCNIChainName: {
    schema: () =>
      z
        .string()
        .refine(isPlainName, { error: "must be the name of a network, and of a directory" }),
    description:
      "Name of an additional network for every pod. Its plugins are the `*.conf` files in the directory of this name, next to the file that `clusterNetwork` names. Without such files, pods do not get it. Requires a path as `clusterNetwork`.",
  },
  checkDelegates: {
    schema: () => z.enum(["defaultNetwork", "all"]),
    default: "defaultNetwork",
    description:
      "Networks whose plugins a CHECK calls. In any case, Plexus verifies the record, interfaces and addresses of every attachment. A failed CHECK prevents the start of the pod with CRI-O.",
  },
  markerResources: {
    schema: () => z.array(markerResource()).readonly(),
    default: [
      "bridge.network.kubevirt.io/*",
      "ovs-cni.network.kubevirt.io/*",
      "networks.plexus.dev/*",
    ],
    description:
      "Resources without devices, such as those of KubeVirt's bridge-marker and ovs-cni: they only tell the scheduler which nodes have a network. A definition that names one in `k8s.v1.cni.cncf.io/resourceName` needs no device. A final `*` stands for any text. Your list replaces the default.",
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
      "Timeout of one plugin. Plexus then kills it with its process group. All plugins of a STATUS or GC have ten seconds.",
  },
  delBudgetMs: {
    schema: budget,
    default: 100_000,
    description:
      "Timeout of all plugins of one DEL together. Each network gets an equal share of the remaining time, so that a plugin that hangs does not keep other networks attached.",
  },
  delGraceMs: {
    schema: () => pause().max(86_400_000),
    default: 300_000,
    description:
      "Grace period for an attachment that a DEL cannot detach although its interface is gone. Until it ends, the DEL fails and the runtime retries. If a plugin is missing, for example during an upgrade, it may have rules or addresses to remove: the period starts with the sandbox's first DEL that finds a plugin missing, and after it the attachment counts as detached. If the attachment never succeeded and its plugin also fails in DEL, the period starts with the sandbox's first failed DEL. After it, Plexus runs the IPAM plugin, forgets the attachment, and records the event `AttachmentForgotten`. It does so at once if the plugin rejects its configuration with the error of its ADD.",
  },
  publishStatus: {
    schema: () => z.enum(["afterReply", "beforeReply"]),
    default: "afterReply",
    description:
      "When plexusd writes `network-status`. `afterReply`: once the container runtime has the ADD's answer, so no pod waits for the API server. `beforeReply`, as in Multus: the ADD waits for the write, at most `statusWaitMs`. In both cases a failed write is retried and never fails the ADD. plexus-standalone always writes before it answers.",
  },
  statusOf: {
    schema: () => z.enum(["all", "requested"]),
    default: "all",
    description:
      "Which pods get `network-status` and the event `AddedInterface`. `all`: every pod, as with Multus. `requested`: pods whose annotations request networks or a default network, and pods with `defaultNetworks` or further `delegates`. The only addresses of other pods are in `status.podIPs`. A pod that shows a status already gets a new one with each new sandbox. Events about problems are recorded for all pods.",
  },
  hotPlug: {
    schema: () =>
      z.union([z.boolean(), texts()], { error: "expected true, false, or a list of namespaces" }),
    default: false,
    description:
      "Whether an edit of a running pod's networks annotation plugs and unplugs networks: of all pods (`true`), or of those in a list of namespaces. See [hot-plug](hot-plug.md). Needs `plexus agent --attach` on the node. Releases without hot-plug cannot read the records that are written with it.",
  },
  inspect: {
    schema: () => z.array(z.enum(["interfaces", "heal", "addresses"])).readonly(),
    default: [],
    description:
      "What the agent looks at in running pods, every minute: [hot-plug](hot-plug.md#lost-interfaces). `interfaces`: a lost interface becomes an event and a metric. `heal`: it is also attached again, if the pod's annotation requests it and `hotPlug` is on for the pod. `addresses`: `network-status` shows the addresses that interfaces have now, for example by SLAAC or DHCP, instead of those of the ADD. Needs `plexus agent --attach` on the node.",
  },
} as const satisfies ConfigKeys;
