import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";

/** The specified keys of an object, in lower case, with their contents. */
interface Shape {
  readonly [key: string]: Shape;
}

const leaf: Shape = {};
const leaves = (...keys: string[]): Shape => Object.fromEntries(keys.map((key) => [key, leaf]));
const route = leaves("dst", "gw", "mtu", "advmss", "priority", "table", "scope");
const ipConfig: Shape = { ip: leaf, gateway: leaf, routes: route };
const resultShape: Shape = {
  cniversion: leaf,
  interfaces: leaves("name", "mac", "mtu", "sandbox", "socketpath", "pciid"),
  ips: leaves("address", "gateway", "interface", "version"),
  routes: route,
  dns: leaves("nameservers", "domain", "search", "options"),
  ip4: ipConfig,
  ip6: ipConfig,
};

/**
 * Adds the fields that a plugin printed beyond the specification to its canonical result.
 * Both must have the same format, because lists are matched by index.
 */
export function withUnknownFields(canonical: JsonObject, printed: JsonObject): JsonObject {
  return mergeObject(canonical, printed, resultShape);
}

function mergeObject(canonical: JsonObject, printed: JsonObject, shape: Shape): JsonObject {
  const known = new Map(Object.keys(canonical).map((key) => [key.toLowerCase(), key]));
  const members = new Map(Object.entries(canonical));
  for (const [key, value] of Object.entries(printed)) {
    const folded = key.toLowerCase();
    const child = Object.hasOwn(shape, folded) ? shape[folded] : undefined;
    const name = known.get(folded);
    if (child === undefined) members.set(key, value);
    else if (name !== undefined) members.set(name, merge(canonical[name] ?? null, value, child));
    else if (isJsonObject(value)) {
      // `dns` is left out when it has no known field.
      const extra = mergeObject({}, value, child);
      if (Object.keys(extra).length > 0) members.set(key, extra);
    }
  }
  return Object.fromEntries(members);
}

function merge(canonical: Json, printed: Json, shape: Shape): Json {
  if (isJsonObject(canonical) && isJsonObject(printed))
    return mergeObject(canonical, printed, shape);
  if (!Array.isArray(canonical) || !Array.isArray(printed)) return canonical;
  return canonical.map((item, index) => merge(item, printed[index] ?? null, shape));
}
