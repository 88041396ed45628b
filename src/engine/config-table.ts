import * as z from "zod";
import type { Json, JsonObject } from "#lib/json.ts";

/**
 * A key of the configuration, which is optional: a row of config-keys.ts, or of plexusd's keys.
 * @internal
 */
export interface ConfigKey {
  /** Made when it is first used: loading zod takes longer than a call of plexus-standalone. */
  readonly schema: () => z.ZodType;
  /** Whether a value is known to be valid, without zod. */
  readonly accepts?: (value: Json) => boolean;
  readonly default?: unknown;
  /** Whether plexusd reads the key only when it starts. @default false */
  readonly restart?: boolean;
  /** For docs/user/configuration.md, which `make docs` writes. */
  readonly description: string;
}

export type ConfigKeys = Readonly<Record<string, ConfigKey>>;

/** Valid values of keys, as far as they are given. */
export type KeyValues<K extends ConfigKeys> = {
  readonly [N in keyof K]?: z.output<ReturnType<K[N]["schema"]>>;
};

type Defaults<K extends ConfigKeys> = {
  readonly [N in keyof K as K[N] extends { default: unknown } ? N : never]: K[N]["default"];
};

/** The defaults of the keys that have one. */
export function defaultsOf<K extends ConfigKeys>(keys: K): Defaults<K> {
  const defaults = Object.entries(keys).map(([name, key]) => [name, key.default]);
  return Object.fromEntries(defaults.filter(([, value]) => value !== undefined));
}

/** The schema of an object with these keys; it applies no defaults. */
export function schemaOf<K extends ConfigKeys>(keys: K): z.ZodType<KeyValues<K>> {
  // A process uses a schema only a few times, so compiling it, zod's default, would take longer.
  z.config({ jitless: true });
  const members = Object.entries(keys).map(([name, key]) => [name, key.schema().exactOptional()]);
  const error = "cannot be set with clusterNetwork";
  const object = z.strictObject(Object.fromEntries(members));
  return object.refine(hasOneDefault, { path: ["delegates"], error }) as z.ZodType<KeyValues<K>>;
}

/** Whether the values are known to be valid, without zod. */
export function areAccepted(keys: ConfigKeys, values: JsonObject): boolean {
  const isAccepted = ([name, value]: [string, Json]) => keys[name]?.accepts?.(value) === true;
  return Object.entries(values).every(isAccepted) && hasOneDefault(values);
}

/** Multus writes an empty list of `delegates` next to `clusterNetwork`. */
function hasOneDefault(values: Readonly<Record<string, unknown>>): boolean {
  const { clusterNetwork = "", delegates } = values;
  return clusterNetwork === "" || !Array.isArray(delegates) || delegates.length === 0;
}
