import { readDocument } from "#cni/document.ts";
import { CniError } from "#cni/error.ts";
import { bytewise } from "#devices/ordered-devices.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import type { ResourceApi } from "#engine/ports/devices.ts";
import type { JsonObject } from "#lib/json.ts";
import type { FieldReader } from "#lib/parsing/field-reader.ts";
import type { PodClaim } from "./pod-claims.ts";

const schedulingGroup = "scheduling.k8s.io";

/** Identifies a device in the cluster. */
export interface DeviceName {
  readonly driver: string;
  readonly pool: string;
  readonly device: string;
}

/** A map key for a device. */
export function deviceKey({ driver, pool, device }: DeviceName): string {
  return JSON.stringify([driver, pool, device]);
}

/** A device allocated to a claim. */
export interface ClaimedDevice extends DeviceName {
  /** The request of the claim, without the chosen alternative. */
  readonly request: string;
}

/** A claim of the pod with its allocated ResourceClaim. */
export interface AllocatedClaim extends PodClaim {
  readonly uid: string;
  /** In the order of the claim's requests, and by name within a request. */
  readonly devices: readonly ClaimedDevice[];
}

/**
 * Reads the ResourceClaims of a pod concurrently, in the order of the claims.
 * @throws CniError 6 when one is invalid, 100 when one does not exist, is not allocated, or not to
 * this pod or its PodGroup; else as {@link ResourceApi.getClaim} does
 */
export function readClaims(
  api: ResourceApi,
  { pod, claims, signal }: { pod: Pod; claims: readonly PodClaim[]; signal: AbortSignal },
): Promise<readonly AllocatedClaim[]> {
  return Promise.all(
    claims.map(async (claim) => {
      const ref = { namespace: pod.namespace, name: claim.claimName };
      const object = await api.getClaim(ref, { signal });
      if (object === undefined) throw missing(pod, claim);
      return allocatedClaim(object, claim, pod);
    }),
  );
}

/** Leaves out devices for administrators, which others may use at the same time. */
function allocatedClaim(object: JsonObject, claim: PodClaim, pod: Pod): AllocatedClaim {
  const subject = `ResourceClaim "${pod.namespace}/${claim.claimName}"`;
  const reading = { subject, reason: "DecodingFailure" } as const;
  return readDocument(object, reading, (fields) => {
    const metadata = fields.object("metadata");
    const status = fields.object("status");
    const owners = metadata?.objects("ownerReferences") ?? [];
    if (claim.isOwned && !owners.some(isPodOrGroup(pod, claim)))
      throw unusable(subject, "was not made for the pod");
    if (!(status?.objects("reservedFor") ?? []).some(isPodOrGroup(pod, claim)))
      throw unusable(subject, "is not reserved for the pod");
    const allocation = status?.object("allocation");
    if (allocation === undefined) throw unusable(subject, "is not allocated");
    const requests = fields.object("spec")?.object("devices")?.objects("requests") ?? [];
    const order = requests.map((request) => request.required("name"));
    const results = allocation.object("devices")?.objects("results") ?? [];
    return {
      ...claim,
      uid: metadata?.required("uid") ?? "",
      devices: results
        .filter((result) => result.value("adminAccess") !== true)
        .map(claimedDevice)
        .sort(inOrderOf(order)),
    };
  });
}

function claimedDevice(result: FieldReader): ClaimedDevice {
  const [request = ""] = result.required("request").split("/");
  return {
    request,
    driver: result.required("driver"),
    pool: result.required("pool"),
    device: result.required("device"),
  };
}

function inOrderOf(requests: readonly string[]): (a: ClaimedDevice, b: ClaimedDevice) => number {
  return (a, b) =>
    requests.indexOf(a.request) - requests.indexOf(b.request) || bytewise(a.device, b.device);
}

/** Whether an owner or consumer is the pod, or its PodGroup, whose UID pods do not have. */
function isPodOrGroup({ uid }: Pod, { podGroup }: PodClaim): (reference: FieldReader) => boolean {
  const isGroup = (reference: FieldReader): boolean =>
    reference.string("resource") === "podgroups"
      ? reference.string("apiGroup") === schedulingGroup
      : reference.string("kind") === "PodGroup" &&
        reference.string("apiVersion")?.startsWith(`${schedulingGroup}/`) === true;
  return (reference) =>
    reference.string("uid") === uid ||
    (podGroup !== undefined && reference.string("name") === podGroup && isGroup(reference));
}

function unusable(subject: string, reason: string): CniError {
  return new CniError("UnusableDevice", `${subject}, a claim of the pod, ${reason}`);
}

function missing({ namespace, name }: Pod, { name: own, claimName }: PodClaim): CniError {
  const which = own === undefined ? "the claim for its extended resources" : `its claim "${own}"`;
  return new CniError(
    "UnusableDevice",
    `pod ${namespace}/${name}: ${which} is the ResourceClaim ${namespace}/${claimName}, which does not exist`,
  );
}
