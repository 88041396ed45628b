import type { JsonObject } from "#lib/json.ts";
import { metadataOf } from "./merge-patch.ts";
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
