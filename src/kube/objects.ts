import type { Pod } from "#engine/ports.ts";
import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";
import type { NetworkAttachmentDefinition } from "#npwg/nad.ts";

/** Asks for an object's metadata only: a pod's spec and status, most of its bytes, are not used. */
export const metadataOnly =
  "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/** The same for a LIST; a WATCH with it ends at its first event. */
export const metadataListOnly =
  "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/** The annotation domains that mean something to a delegating plugin; a cache keeps no others. */
const usedDomains = ["k8s.v1.cni.cncf.io", "v1.multus-cni.io", "plexus.dev"];

/** Written by ourselves, long, and never read back. */
const writtenKeys = new Set([
  "k8s.v1.cni.cncf.io/network-status",
  "k8s.v1.cni.cncf.io/networks-status",
]);

/** The key of an object in a cache. */
export function keyOf(namespace: string, name: string): string {
  return `${namespace}/${name}`;
}

/** What is used of a Pod or its PartialObjectMetadata; undefined without name, namespace or UID. */
export function podOf(object: JsonObject): Pod | undefined {
  const metadata = metadataOf(object);
  const { namespace, name, uid } = metadata;
  if (!isText(namespace) || !isText(name) || !isText(uid)) return undefined;
  const annotations = isJsonObject(metadata.annotations) ? metadata.annotations : {};
  const source = annotations["kubernetes.io/config.source"];
  return {
    namespace,
    name,
    uid,
    annotations: usedAnnotations(annotations),
    isStatic:
      annotations["kubernetes.io/config.mirror"] !== undefined ||
      (source !== undefined && source !== "api"),
  };
}

/** What is used of a NetworkAttachmentDefinition; undefined without name or namespace. */
export function nadOf(object: JsonObject): NetworkAttachmentDefinition | undefined {
  const metadata = metadataOf(object);
  const { namespace, name } = metadata;
  if (!isText(namespace) || !isText(name)) return undefined;
  const annotations = isJsonObject(metadata.annotations) ? metadata.annotations : {};
  const spec = isJsonObject(object.spec) ? object.spec : {};
  return {
    namespace,
    name,
    annotations: usedAnnotations(annotations),
    ...(typeof spec.config === "string" && { config: spec.config }),
  };
}

function metadataOf(object: JsonObject): JsonObject {
  return isJsonObject(object.metadata) ? object.metadata : {};
}

function usedAnnotations(annotations: JsonObject): Record<string, string> {
  const used: Record<string, string> = {};
  for (const [key, value] of Object.entries(annotations)) {
    const domain = key.slice(0, Math.max(0, key.indexOf("/")));
    const isUsed = usedDomains.some((name) => domain === name || domain.endsWith(`.${name}`));
    if (isUsed && !writtenKeys.has(key) && typeof value === "string") used[key] = value;
  }
  return used;
}

function isText(value: Json | undefined): value is string {
  return typeof value === "string" && value !== "";
}
