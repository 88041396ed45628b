import type { CniArgs } from "#cni/args.ts";
import type { CalledPod, ClusterSource } from "#engine/ports/cluster.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/**
 * The pod named by the K8S_* keys of CNI_ARGS; undefined for a sandbox without a pod. podman sends
 * a container's name as K8S_POD_NAME and no namespace. The source decides whether that may be a pod.
 */
export function podIdentity(
  cniArgs: CniArgs,
  source?: Pick<ClusterSource, "namesContainers">,
): CalledPod | undefined {
  const args = new Map(cniArgs);
  const containers = source?.namesContainers === true ? "default" : "";
  const namespace = args.get("K8S_POD_NAMESPACE") ?? containers;
  const name = args.get("K8S_POD_NAME") ?? "";
  if (namespace === "" || name === "") return undefined;
  return omitUndefined({ namespace, name, uid: args.get("K8S_POD_UID") || undefined });
}
