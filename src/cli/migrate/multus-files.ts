import { errorMessage } from "#lib/error-message.ts";
import { isJsonObject, type JsonObject, objectOf, objectsOf, quoteValue } from "#lib/json.ts";
import { parseJsonText } from "#lib/parsing/json-text.ts";
import { parseYamlDocuments } from "#lib/parsing/yaml.ts";
import { installerNotes, installsDynamicNetworks, ownerNotes } from "./installers.ts";
import {
  type ConfigMapEntry,
  isDynamicNetworksController,
  type MultusContainer,
  multusContainers,
} from "./multus-container.ts";
import { type MigrationNote, tableKey } from "./multus-table.ts";

/** One configuration of Multus, as found in a file. */
export interface MultusConfiguration {
  /** `FILE`, or `FILE, data.KEY` for a ConfigMap's entry. */
  readonly source: string;
  /** Of the CNI configuration (thin, or the thick shim's), or of the thick daemon. */
  readonly kind: "cni" | "daemon";
  readonly keys: JsonObject;
  /** The list that Multus's plugin is in. */
  readonly list?: JsonObject;
  /** Absent for a file: it is in effect on the node that it comes from. */
  readonly entry?: ConfigMapEntry;
}

/** What a file has of Multus. */
export interface MultusParts {
  readonly configurations: readonly MultusConfiguration[];
  readonly containers: readonly MultusContainer[];
  /** Where multus-dynamic-networks-controller was found. */
  readonly dynamicNetworks: readonly string[];
  /** What would install Multus again. */
  readonly installers: readonly MigrationNote[];
}

/** The limit of a file in characters: a ConfigMap cannot be longer. */
const maxLength = 1 << 20;

/** The types of Multus's plugin: thin, and the thick shim's. */
export const cniTypes: readonly unknown[] = ["multus", "multus-shim"];

/** Keys that only the file of the thick daemon has. */
const daemonKeys = ["chrootDir", "multusConfigFile", "socketDir"];

/**
 * Finds what a file has of Multus: a CNI conf or list, `daemon-config.json`, or ConfigMaps with
 * either and DaemonSets (YAML or JSON, several documents, a List). @throws Error naming the file
 */
export function findMultus(text: string, file: string): MultusParts {
  if (text.length > maxLength) {
    throw new Error(`${file}: longer than ${maxLength} characters: not a configuration of Multus`);
  }
  const objects = parsed(file, () => documentsIn(text)).flatMap(objectsIn);
  const { workloads = [], others = [] } = Object.groupBy(objects, ({ kind }) =>
    kind === "DaemonSet" || kind === "Deployment" ? "workloads" : "others",
  );
  const found: MultusParts = {
    configurations: others.flatMap((each) =>
      each.kind === "ConfigMap" ? inConfigMap(each, file) : inConfiguration(each, file),
    ),
    containers: workloads.flatMap((each) => multusContainers(each, file)),
    dynamicNetworks:
      workloads.some(isDynamicNetworksController) || others.some(installsDynamicNetworks)
        ? [file]
        : [],
    installers: [
      ...others.flatMap(installerNotes),
      ...workloads.filter((each) => multusContainers(each, file).length > 0).flatMap(ownerNotes),
    ],
  };
  if (Object.values(found).some((each) => each.length > 0)) return found;
  throw new Error(
    `${file}: contains no configuration of Multus: expected a CNI configuration with "type": "multus" or "multus-shim", a daemon-config.json, or a manifest with Multus's ConfigMap and DaemonSet`,
  );
}

/** The parts of several files together. */
export function joinParts(parts: readonly MultusParts[]): MultusParts {
  return {
    configurations: parts.flatMap(({ configurations }) => configurations),
    containers: parts.flatMap(({ containers }) => containers),
    dynamicNetworks: parts.flatMap(({ dynamicNetworks }) => dynamicNetworks),
    installers: parts.flatMap(({ installers }) => installers),
  };
}

function parsed<T>(source: string, parse: () => T): T {
  try {
    return parse();
  } catch (cause) {
    throw new Error(`${source}: ${errorMessage(cause)}`, { cause });
  }
}

/** JSON is no YAML here: that takes a comment, which Multus rejects, for a part of a key. */
function documentsIn(text: string): unknown[] {
  return text.trimStart().startsWith("{") ? [parseJsonText(text)] : [...parseYamlDocuments(text)];
}

/** The objects of a document: itself, or those of a List. */
function objectsIn(document: unknown): JsonObject[] {
  if (!isJsonObject(document)) return [];
  const { kind, items } = document;
  return kind === "List" && Array.isArray(items) ? items.flatMap(objectsIn) : [document];
}

function inConfigMap({ data, metadata }: JsonObject, file: string): MultusConfiguration[] {
  if (!isJsonObject(data)) return [];
  const { name } = objectOf(metadata);
  return Object.entries(data).flatMap(([key, value]) => {
    const source = `${file}, data.${key}`;
    if (typeof value !== "string") throw new Error(`${source}: must be text: ${quoteValue(value)}`);
    // Multus reads no entries but JSON: others are scripts and certificates.
    if (!value.trimStart().startsWith("{")) return [];
    const keys = objectOf(parsed(source, () => parseJsonText(value)));
    const entry = { configMap: typeof name === "string" ? name : "", key };
    return inConfiguration(keys, source).map((configuration) => ({ ...configuration, entry }));
  });
}

function inConfiguration(written: JsonObject, source: string): MultusConfiguration[] {
  const keys = asInTable(written);
  if (cniTypes.includes(keys.type)) return [{ source, kind: "cni", keys }];
  if (Array.isArray(keys.plugins)) {
    const plugins = objectsOf(keys.plugins).flatMap((plugin) => inConfiguration(plugin, source));
    // libcni gives a plugin the name of its list.
    return plugins.map((each) => ({
      ...each,
      keys: { name: keys.name ?? "", ...each.keys },
      list: keys,
    }));
  }
  const isDaemons = keys.type === undefined && daemonKeys.some((key) => key in keys);
  return isDaemons ? [{ source, kind: "daemon", keys }] : [];
}

/** The keys as the table has them: Multus reads them in any case, and uses the last of several. */
function asInTable(written: JsonObject): JsonObject {
  const entries = Object.entries(written).map(([key, value]) => [tableKey(key), value]);
  return Object.fromEntries(entries);
}
