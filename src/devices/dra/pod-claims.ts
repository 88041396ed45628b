import { readDocument } from "#cni/document.ts";
import { CniError } from "#cni/error.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { FieldReader } from "#lib/parsing/field-reader.ts";

/** A claim of a pod. */
export interface PodClaim {
  /** The name in the pod's specification; absent for the claim of extended resources. */
  readonly name?: string;
  /** The ResourceClaim, in the pod's namespace. */
  readonly claimName: string;
  /** Whether the ResourceClaim is this pod's alone: from a template, or for extended resources. */
  readonly isOwned: boolean;
  /** The requests for extended resources. */
  readonly mappings: readonly RequestMapping[];
  /** The pod's PodGroup, which may own the ResourceClaim instead. */
  readonly podGroup?: string;
}

interface RequestMapping {
  readonly resourceName: string;
  readonly requestName: string;
}

/** More than any pod has; each costs a request to the API server. */
const maxClaims = 64;

/**
 * The claims of a Pod in the order of its specification, extended resources last. Claims whose
 * template needed no ResourceClaim are left out.
 * @throws CniError 6 when the Pod is invalid, 11 when a ResourceClaim does not exist yet, 100 for
 * too many
 */
export function podClaims(pod: JsonObject): readonly PodClaim[] {
  const reading = { subject: "Pod", reason: "DecodingFailure" } as const;
  return readDocument(pod, reading, (fields) => {
    const status = fields.object("status");
    const spec = fields.object("spec");
    const wanted = spec?.objects("resourceClaims") ?? [];
    if (wanted.length > maxClaims) {
      const limit = `of pods whose networks need devices at most ${maxClaims} are read`;
      throw new CniError(
        "UnusableDevice",
        `the pod has ${wanted.length} resource claims; ${limit}`,
      );
    }
    // Made from templates, by claim name; undefined when none was needed.
    const generated = new Map(
      (status?.objects("resourceClaimStatuses") ?? []).map(
        (each) => [each.required("name"), each.string("resourceClaimName")] as const,
      ),
    );
    const claims = wanted.flatMap((claim) => claimOf(claim, generated));
    const extended = status?.object("extendedResourceClaimStatus");
    const podGroup = spec?.object("schedulingGroup")?.string("podGroupName");
    const all = extended === undefined ? claims : [...claims, extendedClaim(extended)];
    return all.map((claim) => ({ ...claim, ...omitUndefined({ podGroup }) }));
  });
}

function claimOf(
  claim: FieldReader,
  generated: ReadonlyMap<string, string | undefined>,
): PodClaim[] {
  const name = claim.required("name");
  const direct = claim.string("resourceClaimName");
  // The status lacks claims that the specification names directly.
  if (direct !== undefined) return [{ name, claimName: direct, isOwned: false, mappings: [] }];
  if (!generated.has(name)) {
    const message = `the ResourceClaim of the pod's claim "${name}" has not been made from its template yet`;
    throw new CniError("DevicesUnknown", message);
  }
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
