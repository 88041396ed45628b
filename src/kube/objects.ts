import { createHash } from "node:crypto";
import { readDocument } from "#cni/document.ts";
import { checkTextLimit, limits } from "#cni/limits.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import type { ObjectName } from "#kube/api/paths.ts";
import { objectOf } from "#lib/json.ts";
import { type NetworkAttachmentDefinition, parseNad } from "#npwg/nad.ts";
import { describeObject, mirrorAnnotation, readObjectMeta } from "#npwg/object-meta.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";

/** Requests an object's metadata only: a pod's spec and status, most of its bytes, are not used. */
export const metadataOnly =
  "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/** The same for a LIST; a WATCH with it ends at its first event. */
export const metadataListOnly =
  "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/** The domains of annotations that Plexus reads; caches keep no others. */
const usedDomains = ["k8s.v1.cni.cncf.io", "v1.multus-cni.io", "plexus.dev"];

/** Long annotations, which caches do not keep. The second is Multus's old name of the first. */
const longKeys = new Set([networkStatusAnnotation, "k8s.v1.cni.cncf.io/networks-status"]);

/** The key of an object in a cache. */
export function keyOf({ namespace, name }: ObjectName): string {
  return `${namespace}/${name}`;
}

/** The key of an object of the API; undefined when it has no namespace and name. */
export function keyOfObject(object: unknown): string | undefined {
  const { namespace, name } = objectOf(objectOf(object).metadata);
  const isNamed = typeof namespace === "string" && typeof name === "string";
  return isNamed ? keyOf({ namespace, name }) : undefined;
}

/** Reads the used part of a Pod or its PartialObjectMetadata. @throws CniError 6 */
export function podOf(object: unknown): Pod {
  const reading = { subject: describeObject("Pod", object), reason: "DecodingFailure" } as const;
  return readDocument(object, reading, (fields) => {
    const { namespace, name, annotations } = readObjectMeta(fields, { isManifest: false });
    const uid = fields.object("metadata")?.required("uid") ?? "";
    return { namespace, name, uid, annotations: usedAnnotations(annotations) };
  });
}

/** What a pod shows, and in which version. */
export interface ShownStatus {
  /** Of its text; undefined if it has none. */
  readonly digest: string | undefined;
  /** Versions of one resource type can be compared. */
  readonly version: number;
}

/** A pod of the watch, which keeps no status. */
export interface WatchedPod extends Pod {
  readonly shown: ShownStatus;
}

/** As {@link podOf}, with what it shows. @throws CniError 6 */
export function watchedPodOf(object: unknown): WatchedPod {
  return { ...podOf(object), shown: shownStatus(object) };
}

/** The network-status of a Pod or its PartialObjectMetadata. */
export function shownStatus(object: unknown): ShownStatus {
  const { annotations, resourceVersion } = objectOf(objectOf(object).metadata);
  const text = objectOf(annotations)[networkStatusAnnotation];
  const digest = typeof text === "string" ? statusDigest(text) : undefined;
  return { digest, version: Number(resourceVersion) };
}

/** Tells one status from another. */
export function statusDigest(text: string): string {
  return createHash("sha256").update(text).digest("base64");
}

/**
 * Reads the used part of a NetworkAttachmentDefinition. Too long ones must not fill a cache.
 * @throws CniError 7 naming every invalid field, 100 when the configuration is too long
 */
export function nadOf(object: unknown): NetworkAttachmentDefinition {
  const nad = parseNad(object, { isManifest: false });
  const field = `NetworkAttachmentDefinition "${keyOf(nad)}": spec.config`;
  checkTextLimit(limits.conf, nad.config ?? "", field);
  return { ...nad, annotations: usedAnnotations(nad.annotations) };
}

function usedAnnotations(annotations: Readonly<Record<string, string>>): Record<string, string> {
  const used = Object.entries(annotations).filter(([key]) => {
    const domain = key.slice(0, Math.max(0, key.indexOf("/")));
    const isUsed = usedDomains.some((name) => domain === name || domain.endsWith(`.${name}`));
    return key === mirrorAnnotation || (isUsed && !longKeys.has(key));
  });
  return Object.fromEntries(used);
}
