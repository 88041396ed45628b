import { readDocument } from "#cni/document.ts";
import { CniError, CniErrorCode } from "#cni/error.ts";
import type { FieldReader } from "#lib/field-reader.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/** A claim of a pod. */
export interface PodClaim {
  /** In the pod's specification; absent for the claim that stands for extended resources. */
  readonly name?: string;
  /** The ResourceClaim, in the pod's namespace. */
  readonly claimName: string;
  /** Whether the ResourceClaim was made for this pod alone, from a template or for extended resources. */
  readonly isOwned: boolean;
  /** Which request of the claim has the devices of which extended resource. */
  readonly mappings: readonly RequestMapping[];
  /** The PodGroup that the pod belongs to, which may have the ResourceClaim in its place. */
  readonly podGroup?: string;
}

/** A request of the claim that stands for extended resources. */
interface RequestMapping {
  readonly resourceName: string;
  readonly requestName: string;
}

/** More claims than any pod has; each costs a request to the API server. */
const maxClaims = 64;

/**
 * The claims of a Pod as the API has it, in the order of its specification, that for extended resources last.
 * One that its template needed no ResourceClaim for is left out.
 * @throws CniError 6 when the Pod cannot be read, 11 when a ResourceClaim is not made yet, 100 for too many
 */
export function podClaims(pod: JsonObject): readonly PodClaim[] {
  const reading = { subject: "Pod", code: CniErrorCode.DecodingFailure };
  return readDocument(pod, reading, (fields) => {
    const status = fields.object("status");
    const spec = fields.object("spec");
    const wanted = spec?.objects("resourceClaims") ?? [];
    if (wanted.length > maxClaims) throw tooMany(wanted.length);
    const generated = generatedClaims(status);
    const claims = wanted.flatMap((claim) => claimOf(claim, generated));
    const extended = status?.object("extendedResourceClaimStatus");
    const podGroup = spec?.object("schedulingGroup")?.string("podGroupName");
    const all = extended === undefined ? claims : [...claims, extendedClaim(extended)];
    return all.map((claim) => ({ ...claim, ...omitUndefined({ podGroup }) }));
  });
}

/** The ResourceClaims made from templates, by the names of the pod's claims; undefined where none was needed. */
function generatedClaims(status: FieldReader | undefined): Map<string, string | undefined> {
  const statuses = status?.objects("resourceClaimStatuses") ?? [];
  return new Map(
    statuses.map((each) => [each.required("name"), each.string("resourceClaimName")] as const),
  );
}

function claimOf(
  claim: FieldReader,
  generated: ReadonlyMap<string, string | undefined>,
): PodClaim[] {
  const name = claim.required("name");
  const direct = claim.string("resourceClaimName");
  // The status does not have those that the specification names itself.
  if (direct !== undefined) return [{ name, claimName: direct, isOwned: false, mappings: [] }];
  if (!generated.has(name)) throw notMade(name);
  const claimName = generated.get(name);
  return claimName === undefined ? [] : [{ name, claimName, isOwned: true, mappings: [] }];
}

function extendedClaim(status: FieldReader): PodClaim {
  const mappings = status.objects("requestMappings").map((mapping) => ({
    resourceName: mapping.required("resourceName"),
    requestName: mapping.required("requestName"),
  }));
  return { claimName: status.required("resourceClaimName"), isOwned: true, mappings };
}

function notMade(name: string): CniError {
  const message = `the ResourceClaim of the pod's claim "${name}" has not been made from its template yet`;
  return new CniError("DevicesUnknown", message);
}

function tooMany(count: number): CniError {
  return new CniError(
    "UnusableDevice",
    `the pod has ${count} resource claims; of pods whose networks need devices at most ${maxClaims} are read`,
  );
}
