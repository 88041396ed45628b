import type { CniArgs } from "#cni/args.ts";
import type { CalledPod } from "#engine/ports/cluster.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/** The pod named by the K8S_* keys of CNI_ARGS; undefined for a sandbox without a pod. */
export function podIdentity(cniArgs: CniArgs): CalledPod | undefined {
  const args = new Map(cniArgs);
  const namespace = args.get("K8S_POD_NAMESPACE") ?? "";
  const name = args.get("K8S_POD_NAME") ?? "";
  if (namespace === "" || name === "") return undefined;
  return omitUndefined({ namespace, name, uid: args.get("K8S_POD_UID") || undefined });
}
