import { type NetConfList, parseNetConfList } from "#cni/conf/conf.ts";
import { checkTextLimit, limits } from "#cni/limits.ts";
import type { JsonObject } from "#lib/json.ts";

/** The network of `delegates[index]`. @throws CniError for an invalid or too long configuration */
export function delegateList(conf: JsonObject, index: number, unlimited = false): NetConfList {
  const source = `delegates[${index}]`;
  if (!unlimited) checkTextLimit(limits.conf, JSON.stringify(conf), source);
  return parseNetConfList(conf, { source, unlimited });
}
