import { isDeepStrictEqual } from "node:util";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { type Json, type JsonObject, quoteValue } from "#lib/json.ts";
import { inEffect } from "./in-effect.ts";
import type { MultusParts } from "./multus-files.ts";
import { type Effective, type MigrationNote, translate } from "./multus-table.ts";

/** Plexus's counterpart of a configuration of Multus. */
export interface Migration {
  readonly configuration: JsonObject;
  readonly notes: readonly MigrationNote[];
}

/** A value of Plexus's configuration, and the key of Multus that it comes from. */
interface Converted {
  readonly value: Json;
  readonly source: string;
  readonly key: string;
}

type Values = Map<string, Converted>;

/** Multus's default, which a release of Plexus in another namespace does not share. */
const defaults: JsonObject = { plexusNamespace: "kube-system" };

/** Why every result has `strictness: multus`, and until when. */
const strictnessNote: MigrationNote = {
  source: "Plexus's default is standard",
  key: "strictness",
  note: "pods start although their networks do not declare or ignore a request, or lack a device. Declare capabilities, and add resources without devices to markerResources; remove this key when no event IgnoredRequest or DeviceNotAllocated is left (docs/user/migration.md#requests-that-a-network-ignores)",
};

/**
 * Converts what Multus uses. As with Multus, the daemon's file overrides the CNI one, and both
 * override the arguments that one is generated from; of two of a kind, the later overrides with a
 * note. The result is as lenient ({@link strictnessNote}).
 * @throws Error if the parts do not tell what Multus uses
 */
export function convert(parts: MultusParts): Migration {
  const { effective, notes: unused } = inEffect(parts);
  const ordered = effective.toSorted((a, b) => a.kind.localeCompare(b.kind));
  const values: Values = new Map();
  const notes = ordered.flatMap((each) => convertOne(each, ordered, values));
  removeDefaultDirectories(values);
  const all = [...unused, ...notes, ...mountNotes(values), ...confDirNotes(values), strictnessNote];
  const converted = Object.fromEntries(Array.from(values, ([key, { value }]) => [key, value]));
  const notesByText = new Map(all.map((note) => [JSON.stringify(note), note]));
  return {
    configuration: {
      ...{ ...defaults, ...converted, strictness: "multus" },
      ...(parts.dynamicNetworks.length > 0 && { hotPlug: true }),
    },
    notes: [...notesByText.values()],
  };
}

function convertOne(one: Effective, all: readonly Effective[], values: Values): MigrationNote[] {
  const { source, kind, keys } = one;
  const surroundings = { ...one, isGenerated: isGenerated(all) };
  return Object.entries(keys).flatMap(([name, given]) => {
    const key = kind === "arguments" ? `--${name}` : name;
    const translated = translate(name, given, surroundings);
    const overrides = Object.entries(translated.keys ?? {}).flatMap(([to, value]) => {
      const before = values.get(to);
      values.set(to, { value, source, key });
      if (before === undefined || isDeepStrictEqual(before.value, value)) return [];
      return [`overrides ${quoteValue(before.value)} in ${before.source}`];
    });
    const lines = [...(translated.note === undefined ? [] : [translated.note]), ...overrides];
    return lines.map((note) => ({ source, key, note }));
  });
}

/** Whether the node's CNI configuration is made from the primary CNI's, not copied from a file. */
function isGenerated(all: readonly Effective[]): boolean {
  const files = all.flatMap(({ kind, keys }) => {
    if (kind === "arguments") return keys["multus-conf-file"] ?? [];
    return kind === "daemon" ? (keys.multusConfigFile ?? []) : [];
  });
  return files.every((file) => file === "auto" || file === "");
}

/** The directories of containers are often the defaults under other names. */
function removeDefaultDirectories(values: Values): void {
  const { cniConfDir, cniBinDir } = defaultPaths;
  const confDir = values.get("cniConfDir")?.value ?? cniConfDir;
  const byDefault = { primaryDir: confDir, cniConfDir, cniBinDir };
  for (const [key, path] of Object.entries(byDefault)) {
    if (values.get(key)?.value === path) values.delete(key);
  }
}

function mountNotes(values: Values): MigrationNote[] {
  const names = ["primaryDir", "cniConfDir", "confDir", "readinessindicatorfile"];
  return names.flatMap((name) => {
    const converted = values.get(name);
    if (converted === undefined) return [];
    const { source, key, value } = converted;
    const what = name === "readinessindicatorfile" ? "the directory of" : "the directory";
    const note = `plexusd's container needs ${what} ${String(value)} at the same path: the Helm chart mounts it, and the overlays in deploy/ mount those of their distribution`;
    return [{ source, key, note }];
  });
}

function confDirNotes(values: Values): MigrationNote[] {
  if (values.has("confDir")) return [];
  const note = `if nodes have files in /etc/cni/multus/net.d, copy them to ${defaultPaths.confDir}: definitions without spec.config refer to them`;
  return [{ source: "Multus's default", key: "confDir", note }];
}
