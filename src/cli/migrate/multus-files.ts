import { errorMessage } from "#lib/error-message.ts";
import { isJsonObject, type JsonObject, quoteValue } from "#lib/json.ts";
import { parseJsonText } from "#lib/parsing/json-text.ts";
import { parseYamlDocuments } from "#lib/parsing/yaml.ts";

/** One configuration of Multus, as found in a file. */
export interface MultusConfiguration {
  /** `FILE`, or `FILE, data.KEY` for a ConfigMap's entry. */
  readonly source: string;
  /** Of the CNI configuration (thin, or the thick shim's), or of the thick daemon. */
  readonly kind: "cni" | "daemon";
  readonly keys: JsonObject;
}

/** The limit of a file in characters: a ConfigMap cannot be longer. */
const maxLength = 1 << 20;

const cniTypes: readonly unknown[] = ["multus", "multus-shim"];

/** Keys by which the thick daemon's file is recognized: no other file has them. */
const daemonKeys = ["chrootDir", "multusConfigFile", "multusAutoconfigDir", "socketDir"];

/**
 * Finds the configurations of Multus in a file: a CNI conf or list, `daemon-config.json`, or
 * ConfigMaps with either (YAML or JSON, several documents, a List). @throws Error naming the file
 */
export function findMultusConfigurations(text: string, file: string): MultusConfiguration[] {
  if (text.length > maxLength) {
    throw new Error(`${file}: longer than ${maxLength} characters: not a configuration of Multus`);
  }
  const found = parsed(file, () => [...parseYamlDocuments(text)]).flatMap((document) =>
    inDocument(document, file),
  );
  if (found.length > 0) return found;
  throw new Error(
    `${file}: contains no configuration of Multus: expected a CNI configuration with "type": "multus" or "multus-shim", a daemon-config.json, or a ConfigMap with one of them`,
  );
}

function parsed<T>(source: string, parse: () => T): T {
  try {
    return parse();
  } catch (cause) {
    throw new Error(`${source}: ${errorMessage(cause)}`, { cause });
  }
}

function inDocument(document: unknown, file: string): MultusConfiguration[] {
  if (!isJsonObject(document)) return [];
  if (document.kind === "List" && Array.isArray(document.items)) {
    return document.items.flatMap((item) => inDocument(item, file));
  }
  if (document.kind === "ConfigMap") return inConfigMap(document, file);
  return inConfiguration(document, file);
}

function inConfigMap({ data }: JsonObject, file: string): MultusConfiguration[] {
  if (!isJsonObject(data)) return [];
  return Object.entries(data).flatMap(([key, value]) => {
    const source = `${file}, data.${key}`;
    if (typeof value !== "string") throw new Error(`${source}: must be text: ${quoteValue(value)}`);
    return inEntry(value, source);
  });
}

/** An entry of a ConfigMap; Multus reads no entries but JSON (others are scripts, certificates). */
function inEntry(text: string, source: string): MultusConfiguration[] {
  if (!text.trimStart().startsWith("{")) return [];
  const value = parsed(source, () => parseJsonText(text));
  return isJsonObject(value) ? inConfiguration(value, source) : [];
}

function inConfiguration(keys: JsonObject, source: string): MultusConfiguration[] {
  if (cniTypes.includes(keys.type)) return [{ source, kind: "cni", keys }];
  if (Array.isArray(keys.plugins)) {
    const { plugins } = keys;
    return plugins.filter(isJsonObject).flatMap((plugin) => inConfiguration(plugin, source));
  }
  const isDaemons = keys.type === undefined && daemonKeys.some((key) => key in keys);
  return isDaemons ? [{ source, kind: "daemon", keys }] : [];
}
