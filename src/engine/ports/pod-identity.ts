import type { CniArgs } from "#cni/args.ts";
import type { CalledPod, Pod, PodName } from "#engine/ports/cluster.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { mirrorAnnotation } from "#npwg/object-meta.ts";

/** The pod named by the K8S_* keys of CNI_ARGS; undefined for a sandbox without a pod. */
export function podIdentity(cniArgs: CniArgs): CalledPod | undefined {
  const args = new Map(cniArgs);
  const namespace = args.get("K8S_POD_NAMESPACE") ?? "";
  const name = args.get("K8S_POD_NAME") ?? "";
  if (namespace === "" || name === "") return undefined;
  return omitUndefined({ namespace, name, uid: args.get("K8S_POD_UID") || undefined });
}

/** A pod of the API, or what is known of one. */
export interface NamedPod extends PodName, Partial<Pick<Pod, "annotations">> {
  readonly uid?: string | undefined;
}

/** Whether a call was for a pod. The runtime knows a static pod by the UID that its mirror names. */
export function isOf(called: CalledPod, { namespace, name, uid, annotations }: NamedPod): boolean {
  if (called.namespace !== namespace || called.name !== name) return false;
  const known = annotations?.[mirrorAnnotation] ?? uid;
  return called.uid === undefined || known === undefined || called.uid === known;
}
