import { CniError } from "#cni/error.ts";
import type { ResourceApi } from "#engine/plan/devices/device-ports.ts";
import type { Pod } from "#engine/ports.ts";
import { type AllocatedClaim, allocatedClaim } from "./claim.ts";
import type { PodClaim } from "./pod-claims.ts";

/** A claim of the pod with its ResourceClaim. */
export interface ReadClaim {
  readonly claim: PodClaim;
  readonly allocated: AllocatedClaim;
}

interface ClaimsToRead {
  readonly pod: Pod;
  readonly claims: readonly PodClaim[];
  readonly signal: AbortSignal;
}

/**
 * Reads the ResourceClaims of a pod concurrently, in the order of the claims.
 * @throws CniError 100 when one does not exist or is unusable; else as {@link ResourceApi.getClaim}
 * and {@link allocatedClaim} do
 */
export function readClaims(
  api: ResourceApi,
  { pod, claims, signal }: ClaimsToRead,
): Promise<readonly ReadClaim[]> {
  return Promise.all(
    claims.map(async (claim) => {
      const ref = { namespace: pod.namespace, name: claim.claimName };
      const object = await api.getClaim(ref, { signal });
      if (object === undefined) throw missing(pod, claim);
      return { claim, allocated: allocatedClaim(object, claim, pod) };
    }),
  );
}

function missing({ namespace, name }: Pod, { name: own, claimName }: PodClaim): CniError {
  const which = own === undefined ? "the claim for its extended resources" : `its claim "${own}"`;
  return new CniError(
    "UnusableDevice",
    `pod ${namespace}/${name}: ${which} is the ResourceClaim ${namespace}/${claimName}, which does not exist`,
  );
}
