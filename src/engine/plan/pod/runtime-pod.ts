import { enabledCapabilities, type NetConfList } from "#cni/conf/conf.ts";
import { readDocument } from "#cni/document.ts";
import type { AddRequest, RequestConf } from "#cni/plugin/request.ts";
import { podIdentity } from "#engine/call/pod-identity.ts";
import type { CalledPod, ClusterSource, Pod } from "#engine/ports/cluster.ts";
import type { JsonObject } from "#lib/json.ts";
import { isStaticPod, runtimeUid } from "#npwg/object-meta.ts";

/** How containerd ≥ 1.5 and CRI-O ≥ 1.29 pass the pod's annotations, never older than the API's. */
export const podAnnotationsCapability = "io.kubernetes.cri.pod-annotations";

/**
 * The pod as the runtime describes it; undefined when it does not describe all of it, so that the
 * pod has to be looked up. A static pod has the UID of its mirror if that is known already.
 * @throws CniError 7 when the annotations are no map of strings
 */
export function runtimePod(
  conf: RequestConf,
  identity: CalledPod,
  source?: Pick<ClusterSource, "knownPod">,
): Pod | undefined {
  const { namespace, name, uid } = identity;
  const subject = "invalid network configuration on stdin";
  const options = { subject, reason: "InvalidNetworkConfig" } as const;
  const annotations = readDocument(conf.raw, options, (fields) => {
    const runtimeConfig = fields.object("runtimeConfig");
    // Go writes a map without members as null, too.
    if (runtimeConfig?.has(podAnnotationsCapability) !== true) return undefined;
    return runtimeConfig.stringMap(podAnnotationsCapability);
  });
  if (uid === undefined || annotations === undefined) return undefined;
  const isStatic = isStaticPod(annotations);
  const mirror = isStatic ? source?.knownPod?.(identity) : undefined;
  if (mirror !== undefined && runtimeUid(mirror) === uid) return mirror;
  return { namespace, name, uid, annotations, isStatic };
}

/** What an ADD of a pod says about the runtime. */
export interface PodDescription {
  /** The conf declares the capability. */
  readonly isDeclared: boolean;
  readonly isGiven: boolean;
}

/** Whether the runtime describes the pod of an ADD; undefined if its sandbox is no pod. */
export function podDescription({ conf, cniArgs }: AddRequest): PodDescription | undefined {
  if (podIdentity(cniArgs) === undefined) return undefined;
  return { isDeclared: isDeclared(conf), isGiven: podAnnotationsCapability in conf.runtimeConfig };
}

/**
 * Whether the runtime describes the pods of its ADDs, as far as a call without a pod can tell: as
 * in the last ADD, if its conf declared the same. Before one, a declared capability counts, because
 * the runtimes that call STATUS (containerd 2, CRI-O) are new enough to hand the annotations over.
 */
export function runtimeDescribesPods(
  conf: RequestConf,
  lastAdd: PodDescription | undefined,
): boolean {
  return lastAdd?.isDeclared === isDeclared(conf) ? lastAdd.isGiven : isDeclared(conf);
}

function isDeclared({ capabilities }: RequestConf): boolean {
  return capabilities[podAnnotationsCapability] === true;
}

/** The recorded capability arguments: long annotations only where a plugin takes them. */
export function withoutUnusedAnnotations(args: JsonObject, list: NetConfList): JsonObject {
  if (enabledCapabilities(list).has(podAnnotationsCapability)) return args;
  const { [podAnnotationsCapability]: _, ...others } = args;
  return others;
}
