import { isDeepStrictEqual } from "node:util";
import { type Json, type JsonObject, quoteValue } from "#lib/json.ts";
import type { MultusConfiguration } from "./multus-files.ts";
import { multusRules, translations } from "./multus-keys.ts";

interface MigrationNote {
  /** The file or ConfigMap entry with the key. */
  readonly source: string;
  readonly key: string;
  readonly note: string;
}

/** Plexus's counterpart of a configuration of Multus. */
export interface Migration {
  readonly configuration: JsonObject;
  readonly notes: readonly MigrationNote[];
}

const rules: JsonObject = Object.fromEntries(
  Object.entries(multusRules).map(([key, { value }]) => [key, value]),
);
const ruleNotes = Object.entries(multusRules).map(
  ([key, { note }]): MigrationNote => ({ source: "Multus's behavior", key, note }),
);

/**
 * Converts configurations of Multus. As with Multus, the daemon's file overrides the CNI one; of
 * two of a kind, the later overrides with a note. The result is as lenient ({@link multusRules}).
 */
export function convert(found: readonly MultusConfiguration[]): Migration {
  const values = new Map<string, { value: Json; source: string }>();
  const notes: MigrationNote[] = [];
  const ordered = found.toSorted((a, b) => a.kind.localeCompare(b.kind));
  for (const { source, keys } of ordered) {
    for (const [key, value] of Object.entries(keys)) {
      const translated = translateKey(key, value, keys);
      if (translated.note !== undefined) notes.push({ source, key, note: translated.note });
      for (const [name, given] of Object.entries(translated.keys ?? {})) {
        const before = values.get(name);
        if (before !== undefined && !isDeepStrictEqual(before.value, given)) {
          const note = `overrides ${quoteValue(before.value)} in ${before.source}`;
          notes.push({ source, key, note });
        }
        values.set(name, { value: given, source });
      }
    }
  }
  return {
    configuration: { ...nest(values), ...rules },
    notes: [...withoutRepetitions(notes), ...ruleNotes],
  };
}

function translateKey(
  key: string,
  value: Json,
  all: JsonObject,
): { keys?: JsonObject; note?: string } {
  const translate = Object.hasOwn(translations, key) ? translations[key] : undefined;
  if (translate === undefined)
    return { note: "Multus 4.3 does not read this key either; left out" };
  return value === null ? {} : translate(value, all);
}

/** `primary.conf` becomes `conf` in `primary`. */
function nest(values: ReadonlyMap<string, { value: Json }>): JsonObject {
  const configuration: JsonObject = {};
  for (const [name, { value }] of values) {
    const [outer = name, inner] = name.split(".");
    const before = configuration[outer] as JsonObject | undefined;
    configuration[outer] = inner === undefined ? value : { ...before, [inner]: value };
  }
  return configuration;
}

function withoutRepetitions(notes: readonly MigrationNote[]): MigrationNote[] {
  return notes.filter(
    (note, index) => notes.findIndex((other) => isDeepStrictEqual(other, note)) === index,
  );
}
