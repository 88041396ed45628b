import { isJsonObject, type JsonObject } from "#lib/json.ts";

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

/** A field that an object does not have is an empty text, as on the real one. */
export function isSelected(object: JsonObject, query: URLSearchParams): boolean {
  const spec = isJsonObject(object.spec) ? object.spec : {};
  const terms = (query.get("fieldSelector") ?? "").split(",").filter((term) => term !== "");
  return terms.every((term) => {
    const [path = "", value] = term.split("=");
    return (spec[path.replace("spec.", "")] ?? "") === value;
  });
}
