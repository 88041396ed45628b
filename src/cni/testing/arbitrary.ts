import fc from "fast-check";
import type { Json, JsonObject } from "#lib/json.ts";

/** Any JSON value, `__proto__` keys included. */
export const json: fc.Arbitrary<Json> = fc.jsonValue({ maxDepth: 3 }).map((value) => value as Json);

const dst = fc.oneof(
  fc.tuple(fc.ipV4(), fc.nat(32)).map(([ip, prefix]) => `${ip}/${prefix}`),
  fc.tuple(fc.ipV6(), fc.integer({ min: 96, max: 128 })).map(([ip, prefix]) => `${ip}/${prefix}`),
);
const ip = fc.oneof(fc.ipV4(), fc.ipV6());
const text = fc.string({ minLength: 1 });
const positive = fc.integer({ min: 1, max: 65_535 });

const route = fc.record(
  {
    dst,
    gw: ip,
    mtu: positive,
    advmss: positive,
    priority: positive,
    table: fc.nat(),
    scope: fc.nat(255),
  },
  { requiredKeys: ["dst"] },
);

/** Objects without undefined members, as JSON has them. */
function plain(value: unknown): JsonObject {
  return JSON.parse(JSON.stringify(value)) as JsonObject;
}

/** Valid 1.1.0 results, each with every index in range. */
export const validResult: fc.Arbitrary<JsonObject> = fc
  .record({
    interfaces: fc.array(
      fc.record(
        { name: text, mac: text, mtu: positive, sandbox: text, socketPath: text, pciID: text },
        { requiredKeys: ["name"] },
      ),
      { maxLength: 3 },
    ),
    ips: fc.array(
      fc.record({ address: dst, gateway: ip, interface: fc.nat(2) }, { requiredKeys: ["address"] }),
      { maxLength: 3 },
    ),
    routes: fc.array(route, { maxLength: 3 }),
    dns: fc.record(
      {
        nameservers: fc.array(text, { minLength: 1 }),
        domain: text,
        search: fc.array(text, { minLength: 1 }),
      },
      { requiredKeys: [] },
    ),
  })
  .map(({ interfaces, ips, ...rest }) =>
    plain({
      cniVersion: "1.1.0",
      interfaces,
      ips: ips.map((entry) => ({
        ...entry,
        interface: (entry.interface ?? 3) < interfaces.length ? entry.interface : undefined,
      })),
      ...rest,
    }),
  );

/** Valid configuration lists with additional keys. */
export const validList: fc.Arbitrary<JsonObject> = fc
  .record({
    extra: fc.dictionary(text, json),
    name: fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,20}$/),
    cniVersion: fc.constantFrom("", "0.3.1", "0.4.0", "1.0.0", "1.1.0"),
    cniVersions: fc.option(fc.array(fc.constantFrom("0.4.0", "1.0.0", "99.0.0"))),
    disableCheck: fc.constantFrom(true, false, "true", "FALSE"),
    plugins: fc.array(
      fc.record({
        extra: fc.dictionary(text, json),
        type: fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,20}$/),
        capabilities: fc.dictionary(text, fc.boolean()),
        args: fc.dictionary(text, json),
      }),
      { minLength: 1, maxLength: 3 },
    ),
  })
  .map(({ extra, plugins, cniVersions, ...list }) =>
    plain({
      ...extra,
      ...list,
      ...(cniVersions === null ? {} : { cniVersions }),
      disableGC: false,
      loadOnlyInlinedPlugins: false,
      plugins: plugins.map(({ extra: own, ...plugin }) => ({ ...own, ...wellKnown, ...plugin })),
    }),
  );

/** Random keys must not hit keys that have a meaning. */
const wellKnown = {
  name: "n",
  cniVersion: "1.0.0",
  ipam: { type: "host-local" },
  dns: { nameservers: ["10.0.0.1"] },
  prevResult: {},
  "cni.dev/valid-attachments": [],
};

/** The value with one of its parts, at any depth, replaced by something else or removed. */
export function mutated(valid: fc.Arbitrary<JsonObject>): fc.Arbitrary<JsonObject> {
  return fc
    .record({
      value: valid,
      path: fc.array(fc.nat(5), { minLength: 1, maxLength: 4 }),
      replacement: fc.option(json),
    })
    .map(
      ({ value, path, replacement }) =>
        replaceAt(structuredClone(value), path, replacement) as JsonObject,
    );
}

function replaceAt(value: Json, [step = 0, ...rest]: readonly number[], replacement: Json): Json {
  if (typeof value !== "object" || value === null) return replacement;
  const keys = Object.keys(value);
  const key = keys[step % Math.max(keys.length, 1)];
  if (key === undefined) return replacement;
  const members = value as JsonObject;
  const next = rest.length === 0 ? replacement : replaceAt(members[key] ?? null, rest, replacement);
  Object.defineProperty(members, key, {
    value: next,
    enumerable: true,
    configurable: true,
    writable: true,
  });
  return value;
}
