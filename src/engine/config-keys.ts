import * as z from "zod";
import { isPlainName } from "#cni/names.ts";
import type { Json, JsonObject } from "#lib/json.ts";
import { infiniteNumbers, type NetworkKey, networkKeyDefaults } from "./network-keys.ts";

/** The keys of plexusd's file and the runtime's conf; those that Multus has mean the same. */

// A process uses a schema only a few times, so compiling it, zod's default, would take longer.
z.config({ jitless: true });

export const nonEmptyText = z.string().min(1, { error: "must not be empty" });

export const absolutePath = z
  .string()
  .refine((path) => path.startsWith("/") && !path.includes("\0"), {
    error: "must be an absolute path",
  });

/** Rejects YAML numbers that JSON would print as null: `.inf`, `.nan`, `1e400`. */
const finiteJson = z.custom<Json>().superRefine((value, ctx) => {
  for (const path of infiniteNumbers(value))
    ctx.addIssue({ code: "custom", path, message: "the number is out of range" });
});

const confObject = z.record(z.string(), finiteJson) as z.ZodType<JsonObject>;

/** A list, or Multus's form: one string with commas. */
const namespaceList = z.union([z.array(nonEmptyText).readonly(), z.string()], {
  error: "expected a list of namespaces, or one string with commas between them",
});

/** The keys with their documentation; all are optional. */
export const networkKeys = {
  clusterNetwork: nonEmptyText.exactOptional().meta({
    description:
      "The default network: the name of a NetworkAttachmentDefinition in `plexusNamespace`, the CNI name of a network in `confDir`, or the path of a file or directory. Plexus treats a file as the primary CNI's. Default: the primary CNI in the node's directory.",
  }),
  delegates: z.array(confObject).readonly().exactOptional().meta({
    description:
      "Inline CNI configurations, as an alternative to `clusterNetwork`. The first is the default network, and every pod gets all of them. An empty list counts as absent.",
  }),
  defaultNetworks: z.array(nonEmptyText).readonly().exactOptional().meta({
    description:
      "Networks for every pod outside `systemNamespaces`, named like `clusterNetwork`. If a pod's annotation names the definition of one, the pod gets it only as the annotation requests it.",
    default: networkKeyDefaults.defaultNetworks,
  }),
  systemNamespaces: z.array(nonEmptyText).readonly().exactOptional().meta({
    description: "Pods in these namespaces do not get `defaultNetworks`.",
    default: networkKeyDefaults.systemNamespaces,
  }),
  plexusNamespace: nonEmptyText.exactOptional().meta({
    description: "Namespace of the NetworkAttachmentDefinitions that this configuration names.",
    default: networkKeyDefaults.plexusNamespace,
  }),
  multusNamespace: nonEmptyText
    .exactOptional()
    .meta({ description: "Multus's name for `plexusNamespace`. Set only one of them." }),
  namespaceIsolation: z.boolean().exactOptional().meta({
    description:
      "Limits pods to NetworkAttachmentDefinitions in their namespace and in `globalNamespaces`.",
    default: networkKeyDefaults.namespaceIsolation,
  }),
  globalNamespaces: namespaceList.exactOptional().meta({
    description:
      "Namespaces whose definitions every pod may use with `namespaceIsolation`: a list, or one string with commas.",
    default: networkKeyDefaults.globalNamespaces,
  }),
  confDir: absolutePath.exactOptional().meta({
    description: "Directory where Plexus finds configurations by their CNI name.",
    default: networkKeyDefaults.confDir,
  }),
  binDir: absolutePath.exactOptional().meta({
    description:
      "Plugin directory that is searched before the container runtime's directories. The shim rejects its plugins unless the host's `/etc/plexus/plugin-dirs` lists it. `plexusctl install` adds it when plexusd's pod is created, so restart the DaemonSet after a change (the Helm chart does). Only root may be able to write there.",
  }),
  readinessindicatorfile: z
    .union([absolutePath, z.literal("")], { error: "must be an absolute path, or empty" })
    .exactOptional()
    .meta({
      description:
        "File that the primary CNI creates when it is ready. Until it exists, no pod is attached, and plexusd does not write the node's CNI configuration for the first time.",
    }),
  invalidAnnotation: z.enum(["ignore", "fail"]).exactOptional().meta({
    description:
      "How a pod with an invalid networks annotation is handled. `ignore`: it starts with the default network only. `fail`: it does not start.",
    default: networkKeyDefaults.invalidAnnotation,
  }),
  undeclaredRequests: z.enum(["fail", "cniArgs"]).exactOptional().meta({
    description:
      "How a requested `mac` or `ips` is handled if no plugin of the network declares the capability. `fail`, the standard's rule: the pod does not start. `cniArgs`, as in Multus: plugins get it only as `MAC` and `IP` in `CNI_ARGS`, which many of them read. `plexusctl migrate` sets `cniArgs`.",
    default: networkKeyDefaults.undeclaredRequests,
  }),
  ignoredRequests: z.enum(["fail", "warn"]).exactOptional().meta({
    description:
      "How a request is handled if the network ignores it: the result has another address, MAC, interface or device, or no plugin declares the requested `portMappings`, `bandwidth` or `infiniband-guid`. `fail`: the pod does not start. `warn`, as in Multus: the pod starts, and the event `IgnoredRequest`, the log, the status (`plexus.dev/ignored-requests`) and `plexusctl explain` name the request. `plexusctl migrate` sets `warn`.",
    default: networkKeyDefaults.ignoredRequests,
  }),
  auxiliaryCNIChainName: z
    .string()
    .refine(isPlainName, { error: "must be the name of a network, and of a directory" })
    .exactOptional()
    .meta({
      description:
        "Name of an additional network for every pod. Its plugins are the `*.conf` files in the directory of this name, next to the file that `clusterNetwork` names. Without such files, pods do not get it. Requires a path as `clusterNetwork`.",
    }),
  checkDelegates: z.enum(["defaultNetwork", "all"]).exactOptional().meta({
    description:
      "Networks whose plugins a CHECK calls. In any case, Plexus verifies the record, interfaces and addresses of every attachment. A failed CHECK prevents the start of the pod with CRI-O.",
    default: networkKeyDefaults.checkDelegates,
  }),
  missingDevice: z.enum(["fail", "warn"]).exactOptional().meta({
    description:
      "How a pod is handled that has no allocated device for a network with the annotation `k8s.v1.cni.cncf.io/resourceName`. `fail`: it does not start. `warn`, as in Multus: the network's plugins run without a device.",
    default: networkKeyDefaults.missingDevice,
  }),
  markerResources: z
    .array(
      z.string().regex(/^[^/*\s]+\/[^*\s]*\*?$/, {
        error: "must be a resource (DOMAIN/NAME), or the beginning of one with / and a final *",
      }),
    )
    .readonly()
    .exactOptional()
    .meta({
      description:
        "Resources without devices, such as those of KubeVirt's bridge-marker and ovs-cni: they only tell the scheduler which nodes have a network. A definition that names one in `k8s.v1.cni.cncf.io/resourceName` needs no device. A final `*` stands for any text. Your list replaces the default.",
      default: networkKeyDefaults.markerResources,
    }),
} satisfies Readonly<Record<NetworkKey, z.ZodType>>;

/** Values of {@link networkKeys} in one of the two configurations. */
export type NetworkKeyValues = z.output<z.ZodObject<typeof networkKeys>>;

const exclusiveKeys = [
  ["clusterNetwork", "delegates"],
  ["plexusNamespace", "multusNamespace"],
] as const;

/** Rejects keys that exclude each other; for `superRefine` of both schemas. */
export function refuseExclusiveKeys(
  values: NetworkKeyValues,
  context: z.core.$RefinementCtx<NetworkKeyValues>,
): void {
  for (const [key, other] of exclusiveKeys) {
    if (!isGiven(values[key]) || !isGiven(values[other])) continue;
    const message = `${other} and ${key} exclude each other: set one of them`;
    context.addIssue({ code: "custom", path: [other], message });
  }
}

/** Whether a key is set. Multus writes an empty list of `delegates` next to `clusterNetwork`. */
function isGiven(value: string | readonly JsonObject[] | undefined): boolean {
  return value !== undefined && value.length > 0;
}
