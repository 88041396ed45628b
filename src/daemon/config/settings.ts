import { defaultEngineConfig } from "#engine/config.ts";
import { networkKeys } from "#engine/config-keys.ts";
import { type ConfigKeys, defaultsOf } from "#engine/config-table.ts";
import type { JsonObject } from "#lib/json.ts";
import { fileKeys } from "./config.ts";

/** A key of the configuration, with its value in effect. */
export interface Setting {
  readonly key: string;
  readonly value: unknown;
  /** A file, `command line` or `default`. */
  readonly source: string;
}

/** What one source says. The first that gives a key counts. */
export type Layer = readonly [source: string, values: Readonly<Record<string, unknown>>];

const byDefault: Layer = ["default", { ...defaultEngineConfig, ...defaultsOf(fileKeys) }];

/** Every key that has a value; plexusd reads some only when it starts. `conf` is the runtime's. */
export function settingsOf(
  { now, atStart }: { readonly now: readonly Layer[]; readonly atStart: readonly Layer[] },
  conf: JsonObject,
): Setting[] {
  const given = Object.entries(conf).filter(
    ([key, value]) => Object.hasOwn(networkKeys, key) && value !== null && value !== "",
  );
  const below: readonly Layer[] = [["the CNI configuration", Object.fromEntries(given)], byDefault];
  return Object.entries<ConfigKeys[string]>(fileKeys).flatMap(([key, { restart = false }]) => {
    const layers = [...(restart ? atStart : now), ...below];
    const found = layers.find(([, values]) => values[key] !== undefined);
    return found === undefined ? [] : { key, value: found[1][key], source: found[0] };
  });
}
