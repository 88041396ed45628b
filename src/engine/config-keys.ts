import * as z from "zod";
import { isNetworkName } from "#cni/names.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import type { Json, JsonObject } from "#lib/json.ts";

/**
 * The configuration keys that say which networks pods get and how they are attached. plexusd's
 * configuration file and the runtime's conf (`"type":"plexus"`) both take them, by this one
 * declaration. Where Multus has a key of the same meaning it has the same name.
 */

// A schema is used a few times in the life of a process: to compile it, as zod does, takes longer than that.
z.config({ jitless: true });

/** Any text but the empty one. */
export const nonEmptyText = z.string().min(1, { error: "must not be empty" });

/** A path that does not depend on a working directory. */
export const absolutePath = z
  .string()
  .refine((path) => path.startsWith("/") && !path.includes("\0"), {
    error: "must be an absolute path",
  });

/** What holds for a key that neither the configuration file nor the runtime's conf has. */
export const networkKeyDefaults = {
  delegates: [] as readonly JsonObject[],
  defaultNetworks: [] as readonly string[],
  systemNamespaces: ["kube-system"] as readonly string[],
  plexusNamespace: "kube-system",
  namespaceIsolation: false as boolean,
  globalNamespaces: ["default"] as readonly string[],
  confDir: defaultPaths.confDir as string,
  invalidAnnotation: "ignore" as "ignore" | "fail",
  undeclaredRequests: "fail" as "fail" | "cniArgs",
  ignoredRequests: "fail" as "fail" | "warn",
  checkDelegates: "defaultNetwork" as "defaultNetwork" | "all",
  missingDevice: "fail" as "fail" | "warn",
};

/** YAML has numbers that JSON would print as null: `.inf`, `.nan`, `1e400`. */
const finiteJson = z.custom<Json>().superRefine((value, ctx) => {
  for (const path of infiniteNumbers(value))
    ctx.addIssue({ code: "custom", path, message: "the number is out of range" });
});

/** Where a value has numbers that are not finite. */
function infiniteNumbers(value: unknown): (string | number)[][] {
  if (typeof value === "number") return Number.isFinite(value) ? [] : [[]];
  if (typeof value !== "object" || value === null) return [];
  const isList = Array.isArray(value);
  return Object.entries(value).flatMap(([key, each]) =>
    infiniteNumbers(each).map((path) => [isList ? Number(key) : key, ...path]),
  );
}

const confObject = z.record(z.string(), finiteJson) as z.ZodType<JsonObject>;

/** A list, or one string with commas between the items, as Multus has it. */
const namespaceList = z.union([z.array(nonEmptyText).readonly(), z.string()], {
  error: "expected a list of namespaces, or one string with commas between them",
});

/** The keys with their documentation; all are optional. */
export const networkKeys = {
  clusterNetwork: nonEmptyText
    .meta({
      description:
        "The default network: the name of a NetworkAttachmentDefinition in `plexusNamespace`, the CNI name of a network in `confDir`, or the path of a file or directory; a file is taken for the primary CNI's. Absent: the primary CNI that is found in the node's directory.",
    })
    .exactOptional(),
  delegates: z
    .array(confObject)
    .readonly()
    .meta({
      description:
        "CNI configurations inline instead of `clusterNetwork`: the first is the default network, all are attached to every pod. An empty list is the same as none.",
    })
    .exactOptional(),
  defaultNetworks: z
    .array(nonEmptyText)
    .readonly()
    .meta({
      description:
        "Networks for every pod outside `systemNamespaces`, named as `clusterNetwork` is.",
      default: networkKeyDefaults.defaultNetworks,
    })
    .exactOptional(),
  systemNamespaces: z
    .array(nonEmptyText)
    .readonly()
    .meta({
      description: "Pods in these namespaces do not get `defaultNetworks`.",
      default: networkKeyDefaults.systemNamespaces,
    })
    .exactOptional(),
  plexusNamespace: nonEmptyText
    .meta({
      description: "Namespace of the NetworkAttachmentDefinitions that this configuration names.",
      default: networkKeyDefaults.plexusNamespace,
    })
    .exactOptional(),
  multusNamespace: nonEmptyText
    .meta({ description: "Multus's name of `plexusNamespace`; only one of them may be given." })
    .exactOptional(),
  namespaceIsolation: z
    .boolean()
    .meta({
      description:
        "Pods may use NetworkAttachmentDefinitions of their own namespace and of `globalNamespaces` only.",
      default: networkKeyDefaults.namespaceIsolation,
    })
    .exactOptional(),
  globalNamespaces: namespaceList
    .meta({
      description:
        "Namespaces whose definitions every pod may use under `namespaceIsolation`: a list, or one string with commas.",
      default: networkKeyDefaults.globalNamespaces,
    })
    .exactOptional(),
  confDir: absolutePath
    .meta({
      description: "Where configurations are looked up by their CNI name.",
      default: networkKeyDefaults.confDir,
    })
    .exactOptional(),
  binDir: absolutePath
    .meta({
      description:
        "Searched for plugins before the directories that the container runtime names. The host's `/etc/plexus/plugin-dirs` has to list it, or plugins in it are refused: `plexusctl install` does that when plexusd's pod is made, so restart the DaemonSet after a change. Only root may be able to write there.",
    })
    .exactOptional(),
  readinessindicatorfile: z
    .union([absolutePath, z.literal("")], { error: "must be an absolute path, or empty" })
    .meta({
      description:
        "A file that the primary CNI writes when it is ready: without it no pod is attached, and the node's configuration is not written for the first time.",
    })
    .exactOptional(),
  invalidAnnotation: z
    .enum(["ignore", "fail"])
    .meta({
      description:
        "What becomes of a pod whose networks annotation cannot be read: it starts with the default network only, or not at all.",
      default: networkKeyDefaults.invalidAnnotation,
    })
    .exactOptional(),
  undeclaredRequests: z
    .enum(["fail", "cniArgs"])
    .meta({
      description:
        "How a requested `mac` or `ips` is handled that no plugin of the network declares as a capability. `fail`, the standard's rule: the pod does not start. `cniArgs`, as Multus: plugins get it as `MAC` and `IP` in `CNI_ARGS` alone, which many read. `plexusctl migrate` sets `cniArgs`.",
      default: networkKeyDefaults.undeclaredRequests,
    })
    .exactOptional(),
  ignoredRequests: z
    .enum(["fail", "warn"])
    .meta({
      description:
        "How a request is handled that a network ignores: its result shows another address, MAC, interface or device, or no plugin declares the requested `portMappings`, `bandwidth` or `infiniband-guid`. `fail`: the pod does not start. `warn`, as Multus: the pod starts, and the event `IgnoredRequest`, the log, the status (`plexus.dev/ignored-requests`) and `plexusctl explain` name the request. `plexusctl migrate` sets `warn`.",
      default: networkKeyDefaults.ignoredRequests,
    })
    .exactOptional(),
  auxiliaryCNIChainName: z
    .string()
    .refine(isNetworkName, { error: "must be the name of a network, and of a directory" })
    .meta({
      description:
        "One more network for every pod, of this name, whose plugins are the `*.conf` files in the directory of this name beside the file that `clusterNetwork` is; without such files there is none. Needs a `clusterNetwork` that is a path.",
    })
    .exactOptional(),
  checkDelegates: z
    .enum(["defaultNetwork", "all"])
    .meta({
      description:
        "Whose plugins a CHECK asks, besides what Plexus verifies of every attachment: its record, its interfaces and their addresses. A plugin that finds fault fails the CHECK, and with it, under CRI-O, the start of the pod.",
      default: networkKeyDefaults.checkDelegates,
    })
    .exactOptional(),
  missingDevice: z
    .enum(["fail", "warn"])
    .meta({
      description:
        "What becomes of a pod that was not allocated a device for a network whose definition has the annotation `k8s.v1.cni.cncf.io/resourceName`: it does not start, or the network's plugins are executed without a device, as with Multus.",
      default: networkKeyDefaults.missingDevice,
    })
    .exactOptional(),
};

/** Values of {@link networkKeys} as one side gives them. */
export type NetworkKeyValues = z.output<z.ZodObject<typeof networkKeys>>;

/** Keys of which only one may be given, on either side. */
const exclusiveKeys = [
  ["clusterNetwork", "delegates"],
  ["plexusNamespace", "multusNamespace"],
] as const;

/** The rule for keys that are right one by one but not together; for `superRefine` of both schemas. */
export function refuseExclusiveKeys(
  values: NetworkKeyValues,
  context: z.core.$RefinementCtx<NetworkKeyValues>,
): void {
  for (const [key, other] of exclusiveKeys) {
    if (!isGiven(values[key]) || !isGiven(values[other])) continue;
    const message = `${other} and ${key} exclude each other: give one of them`;
    context.addIssue({ code: "custom", path: [other], message });
  }
}

/** Whether a key says anything: an empty list of `delegates` does not, as Multus writes it beside `clusterNetwork`. */
function isGiven(value: string | readonly JsonObject[] | undefined): boolean {
  return value !== undefined && value.length > 0;
}
