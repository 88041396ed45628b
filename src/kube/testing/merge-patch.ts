import { isJsonObject, type JsonObject } from "#lib/json.ts";

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
