import type { CniArgs } from "#cni/args.ts";
import { CniError } from "#cni/error.ts";
import type { AddRequest } from "#cni/plugin/request.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import type { CalledPod, Pod } from "#engine/ports/cluster.ts";
import { podIdentity } from "#engine/ports/pod-identity.ts";
import { runtimePod } from "./runtime-pod.ts";

const podKeys = ["K8S_POD_NAMESPACE", "K8S_POD_NAME", "K8S_POD_UID"];

/** @throws CniError 4 when there are K8S_* keys that do not name a pod */
function podToAttach(cniArgs: CniArgs): CalledPod | undefined {
  const identity = podIdentity(cniArgs);
  const key = cniArgs.find(([name]) => podKeys.includes(name))?.[0];
  if (identity !== undefined || key === undefined) return identity;
  const message = `invalid CNI_ARGS: there is ${key}, but K8S_POD_NAMESPACE and K8S_POD_NAME do not name a pod`;
  throw new CniError("InvalidEnvironmentVariables", message);
}

/**
 * The pod to attach; undefined if the sandbox is not a pod. Looks it up only if the runtime does
 * not describe it.
 * @throws CniError 4 when CNI_ARGS name it wrongly; 11 when there is no such pod, or nothing that
 *   knows pods: the runtime may still want it, and an invented result would start it without its
 *   networks
 */
export async function resolvePod(ctx: CallContext, request: AddRequest): Promise<Pod | undefined> {
  const { source } = ctx.deps;
  const identity = podToAttach(request.cniArgs);
  if (identity === undefined) return undefined;
  const described = runtimePod(request.conf, identity, source);
  if (described !== undefined) return described;
  if (source === undefined) throw noSource(identity);
  const pod = await source.getPod(identity, { signal: ctx.signal });
  if (pod !== undefined) return pod;
  const { namespace, name } = identity;
  const uid = identity.uid === undefined ? "" : ` with uid ${identity.uid}`;
  const reason = source.notReadyReason() ?? "it was deleted or replaced";
  throw new CniError("PodReplaced", `there is no pod ${namespace}/${name}${uid}: ${reason}`);
}

/** The error when a pod must be looked up and no cluster source is configured. */
export function noSource({ namespace, name }: CalledPod): CniError {
  return new CniError(
    "DaemonUnavailable",
    `cannot look up the networks of pod ${namespace}/${name}: plexusd is unavailable and has left no access to the ` +
      "API server; start plexusd, or without Kubernetes name a kubeconfig or a directory of manifests",
  );
}
