import { readDocument } from "#cni/document.ts";
import type { RequestConf } from "#cni/plugin/request.ts";
import type { CalledPod, ClusterSource, Pod } from "#engine/ports/cluster.ts";
import { isStaticPod, podAnnotationsCapability, runtimeUid } from "#npwg/object-meta.ts";

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
  const mirror = isStaticPod(annotations) ? source?.knownPod?.(identity) : undefined;
  if (mirror !== undefined && runtimeUid(mirror) === uid) return mirror;
  return { namespace, name, uid, annotations };
}
