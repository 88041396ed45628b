import { mirrorAnnotation } from "#npwg/object-meta.ts";
import type { NewObject } from "../api/api-server.ts";
import type { SimulatedPod } from "../node/runtime.ts";

/** The mirror of a static pod, which the kubelet has made for the `nth` time. */
export function mirrorOf(
  { namespace, name, uid, annotations }: SimulatedPod,
  nth: number,
): NewObject {
  const named = { ...annotations, [mirrorAnnotation]: uid };
  return { namespace, name, uid: `mirror-${nth}-of-${uid}`, annotations: named };
}
