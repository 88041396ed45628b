import { type JsonObject, objectOf } from "#lib/json.ts";

/** `spec.nodeName` of a pod in the API: the Node's name, which may differ from the host's name. */
export function nodeNameOf({ spec }: JsonObject): string | undefined {
  const name = objectOf(spec).nodeName;
  return typeof name === "string" && name !== "" ? name : undefined;
}
