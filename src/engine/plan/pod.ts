import type { CniArgs } from "#cni/args.ts";
import { CniError, CniErrorCode } from "#cni/error.ts";
import type { CallContext } from "#engine/deps.ts";
import type { Pod, PodIdentity } from "#engine/ports.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

const podKeys = ["K8S_POD_NAMESPACE", "K8S_POD_NAME", "K8S_POD_UID"];

/** The pod that CNI_ARGS name with their K8S_* keys; undefined for sandboxes that are not pods (podman). */
export function podIdentity(cniArgs: CniArgs): PodIdentity | undefined {
  const args = new Map(cniArgs);
  const namespace = args.get("K8S_POD_NAMESPACE");
  const name = args.get("K8S_POD_NAME");
  if (namespace === undefined || namespace === "" || name === undefined || name === "") {
    return undefined;
  }
  const uid = args.get("K8S_POD_UID");
  return omitUndefined({ namespace, name, uid: uid || undefined });
}

/**
 * The same for an ADD, which must not take a pod that is named wrongly for a sandbox that is none.
 * @throws CniError 4 when there are K8S_* keys that do not name a pod
 */
export function podToAttach(cniArgs: CniArgs): PodIdentity | undefined {
  const identity = podIdentity(cniArgs);
  const key = cniArgs.find(([name]) => podKeys.includes(name))?.[0];
  if (identity !== undefined || key === undefined) return identity;
  throw new CniError(
    CniErrorCode.InvalidEnvironmentVariables,
    `invalid CNI_ARGS: there is ${key}, but K8S_POD_NAMESPACE and K8S_POD_NAME do not name a pod`,
  );
}

/**
 * The pod to attach; undefined if the sandbox is not a pod.
 * @throws CniError 11 when there is no such pod, or nothing that knows pods: the runtime may still
 *   want it, and an invented result would start it without its networks
 */
export async function resolvePod(
  ctx: CallContext,
  identity: PodIdentity | undefined,
): Promise<Pod | undefined> {
  const { source } = ctx.deps;
  if (identity === undefined) return undefined;
  if (source === undefined) throw noSource(identity);
  const pod = await source.getPod(identity, { signal: ctx.signal });
  if (pod !== undefined) return pod;
  const uid = identity.uid === undefined ? "" : ` with uid ${identity.uid}`;
  throw new CniError(
    CniErrorCode.TryAgainLater,
    `there is no pod ${identity.namespace}/${identity.name}${uid}: it was deleted or replaced`,
  );
}

function noSource({ namespace, name }: PodIdentity): CniError {
  return new CniError(
    CniErrorCode.TryAgainLater,
    `cannot look up the networks of pod ${namespace}/${name}: plexusd is away and has left no access to the ` +
      "API server; the pod can be attached once plexusd runs again",
  );
}
