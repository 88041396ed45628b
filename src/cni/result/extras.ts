import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";

/** The keys that the specification has in one kind of object, in lower case, and what they hold. */
interface Shape {
  readonly [key: string]: Shape;
}

const leaf: Shape = {};
const route: Shape = {
  dst: leaf,
  gw: leaf,
  mtu: leaf,
  advmss: leaf,
  priority: leaf,
  table: leaf,
  scope: leaf,
};
const ipConfig: Shape = { ip: leaf, gateway: leaf, routes: route };
const resultShape: Shape = {
  cniversion: leaf,
  interfaces: { name: leaf, mac: leaf, mtu: leaf, sandbox: leaf, socketpath: leaf, pciid: leaf },
  ips: { address: leaf, gateway: leaf, interface: leaf, version: leaf },
  routes: route,
  dns: { nameservers: leaf, domain: leaf, search: leaf, options: leaf },
  ip4: ipConfig,
  ip6: ipConfig,
};

/**
 * Adds to a result in canonical form what its plugin printed beyond the specification, so that
 * the next plugin of the list and the records see it. Both must be of the same family, as their
 * lists are matched element by element.
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
    else if (isJsonObject(value)) setNonEmpty(members, key, mergeObject({}, value, child));
  }
  return Object.fromEntries(members);
}

/** `dns` is left out when nothing that is known is in it. */
function setNonEmpty(members: Map<string, Json>, key: string, value: JsonObject): void {
  if (Object.keys(value).length > 0) members.set(key, value);
}

function merge(canonical: Json, printed: Json, shape: Shape): Json {
  if (shape === leaf) return canonical;
  if (isJsonObject(canonical) && isJsonObject(printed))
    return mergeObject(canonical, printed, shape);
  if (!Array.isArray(canonical) || !Array.isArray(printed)) return canonical;
  return canonical.map((item, index) => merge(item, printed[index] ?? null, shape));
}
