import { isDeepStrictEqual } from "node:util";
import type { JsonObject } from "#lib/json.ts";

/**
 * Whether two configurations are the same plugin. Agents name theirs, and may change its settings.
 * Others of one type may be there twice, with different settings.
 */
export function isSamePlugin(a: JsonObject, b: JsonObject): boolean {
  if (a.type !== b.type) return false;
  return typeof a.name === "string" ? a.name === b.name : isDeepStrictEqual(a, b);
}
