import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";
import type { SeenRequest } from "./requests.ts";

const partial = { kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1" };

/** Kind and version of a collection's objects, as far as a client insists on them. */
export function typeOf(collection: string): JsonObject {
  if (collection === "pods") return { kind: "Pod", apiVersion: "v1" };
  if (collection === "network-attachment-definitions")
    return { kind: "NetworkAttachmentDefinition", apiVersion: "k8s.cni.cncf.io/v1" };
  return {};
}

/** Kind and version of the answer to a LIST. */
export function listType(collection: string, request: SeenRequest): JsonObject {
  const { kind = "", ...version } = wantsMetadata(request) ? partial : typeOf(collection);
  return { kind: `${kind}List`, ...version };
}

/** An object as the client wants it: whole, or its metadata alone. */
export function asViewed(object: JsonObject, request: SeenRequest): JsonObject {
  return wantsMetadata(request) ? { ...partial, metadata: metadataOf(object) } : object;
}

function wantsMetadata({ headers }: SeenRequest): boolean {
  return headers.accept?.includes("as=PartialObjectMetadata") ?? false;
}

/** The cache, which answers for version 0, knows no limit. */
export function limitOf(query: URLSearchParams): number {
  const isCached = query.get("resourceVersion") === "0";
  return isCached ? Number.POSITIVE_INFINITY : Number(query.get("limit") ?? "Infinity");
}

/** A LIST with a limit and a version, but without resourceVersionMatch, gets that very version. */
export function exactVersion(query: URLSearchParams): string | undefined {
  const version = Number(query.get("resourceVersion"));
  const isExact = version > 0 && query.has("limit") && !query.has("resourceVersionMatch");
  return isExact ? `${version}` : undefined;
}

/**
 * Whether an object has the query's labels and fields of its spec. A field that it does not have is
 * an empty text, as on the real server.
 */
export function isSelected(object: JsonObject, query: URLSearchParams): boolean {
  const { spec } = object;
  const { labels } = metadataOf(object);
  const ofSpec = termsOf(query, "fieldSelector").map(
    ([path, value]): Term => [path.replace("spec.", ""), value],
  );
  return hasAll(spec, ofSpec) && hasAll(labels, termsOf(query, "labelSelector"));
}

type Term = readonly [key: string, value: string];

function termsOf(query: URLSearchParams, selector: string): Term[] {
  const terms = (query.get(selector) ?? "").split(",").filter((term) => term !== "");
  return terms.map((term) => {
    const [key = "", value = ""] = term.split("=");
    return [key, value];
  });
}

function hasAll(object: Json | undefined, terms: readonly Term[]): boolean {
  const fields = isJsonObject(object) ? object : {};
  return terms.every(([key, value]) => (fields[key] ?? "") === value);
}

/** An object's metadata; none is an empty one. */
export function metadataOf(object: JsonObject): JsonObject {
  return isJsonObject(object.metadata) ? object.metadata : {};
}

/** Namespace and name of an object. */
export function namesOf(object: JsonObject): { namespace: string; name: string } {
  const { namespace, name } = metadataOf(object);
  return { namespace: String(namespace), name: String(name) };
}

/** RFC 7396. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isJsonObject(patch)) return patch;
  const result: Record<string, unknown> = isJsonObject(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = mergePatch(result[key], value);
  }
  return result;
}
