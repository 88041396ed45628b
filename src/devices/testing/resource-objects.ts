import type { JsonObject } from "#lib/json.ts";

/** A device that a claim was allocated; of driver `nic.example`, pool `pool` and request `req`. */
interface AllocationResult {
  readonly device: string;
  readonly request?: string;
  readonly driver?: string;
  readonly adminAccess?: boolean;
}

/** A ResourceClaim as the API server has it, allocated and reserved for the pod `uid-web`. */
export function claimObject(
  name: string,
  results: readonly AllocationResult[],
  options: { owner?: string; reservedFor?: string; isAllocated?: boolean } = {},
): JsonObject {
  const { owner, reservedFor = "uid-web", isAllocated = true } = options;
  const allocated = results.map((result) => ({
    request: "req",
    driver: "nic.example",
    pool: "pool",
    ...result,
  }));
  const requests = [...new Set(allocated.map(({ request }) => request.split("/")[0] ?? ""))];
  return {
    metadata: {
      namespace: "default",
      name,
      uid: `uid-of-${name}`,
      ownerReferences: owner === undefined ? [] : [{ kind: "Pod", name: "web", uid: owner }],
    },
    spec: { devices: { requests: requests.map((request) => ({ name: request })) } },
    status: {
      reservedFor: [{ resource: "pods", name: "web", uid: reservedFor }],
      ...(isAllocated ? { allocation: { devices: { results: allocated } } } : {}),
    },
  };
}

/** A ResourceSlice of driver `nic.example`, pool `pool`, generation 1. */
export function sliceObject(options: {
  devices: readonly JsonObject[];
  driver?: string;
  pool?: string;
  generation?: number;
}): JsonObject {
  const { devices, driver = "nic.example", pool = "pool", generation = 1 } = options;
  const spec = { driver, pool: { name: pool, generation, resourceSliceCount: 1 } };
  return { metadata: { name: `${driver}-${pool}` }, spec: { ...spec, devices: [...devices] } };
}

/** A Pod with claims as the API server has it. */
export function draPod(options: {
  spec?: readonly JsonObject[];
  statuses?: readonly JsonObject[];
  extended?: JsonObject;
}): JsonObject {
  const { spec = [], statuses = [], extended } = options;
  return {
    spec: { resourceClaims: [...spec], containers: [{ name: "main" }] },
    status: {
      resourceClaimStatuses: [...statuses],
      ...(extended === undefined ? {} : { extendedResourceClaimStatus: extended }),
    },
  };
}
