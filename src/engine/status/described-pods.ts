import type { AddRequest, RequestConf } from "#cni/plugin/request.ts";
import { podIdentity } from "#engine/ports/pod-identity.ts";
import { podAnnotationsCapability } from "#npwg/object-meta.ts";

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
