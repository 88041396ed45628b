import { readDocument, readJsonObject } from "#cni/document.ts";
import { checkLimit, limits } from "#cni/limits.ts";
import { isPlainName } from "#cni/names.ts";
import { negotiateVersion, parseVersion, requireSupportedVersion } from "#cni/versions.ts";
import { errorMessage } from "#lib/error-message.ts";
import type { JsonObject } from "#lib/json.ts";
import { withValue } from "#lib/parsing/document-error.ts";
import type { FieldReader } from "#lib/parsing/field-reader.ts";
import { type PluginConf, readPlugin, spellKeys } from "./plugin-conf.ts";

/** A network configuration list: CNI 1.1.0 §1 "Configuration format". */
export interface NetConfList {
  readonly name: string;
  /** The version in use; "" means 0.1.0. */
  readonly cniVersion: string;
  /** The versions as written, if there are several to choose from. */
  readonly written?: { readonly cniVersion: string; readonly cniVersions: readonly string[] };
  readonly disableCheck: boolean;
  readonly disableGC: boolean;
  readonly loadOnlyInlinedPlugins: boolean;
  readonly plugins: readonly PluginConf[];
  /** Every key, with those of CNI as {@link spellKeys} spells them; `name` and `cniVersion` as resolved, without `cniVersions`. */
  readonly raw: JsonObject;
}

/** How to read a configuration. */
export interface ConfOptions {
  /** How error messages name it: a file, a NetworkAttachmentDefinition. */
  readonly source: string;
  /** The name to use when the configuration has no `name`, in exactly this case. */
  readonly name?: string;
  /** Accept a list without plugins, because the caller appends some. @default false */
  readonly allowNoPlugins?: boolean;
  /** The form that is expected. @default either */
  readonly form?: "list" | "plugin";
  /** Accept any size and version, for a DEL: others may have been accepted before. @default false */
  readonly unlimited?: boolean;
}

/**
 * Reads a configuration list, or a single plugin's configuration as a list of one.
 * @throws CniError 1 for an unsupported version, 6 when it is not JSON, 7 naming every wrong field,
 * 100 for too many plugins
 */
export function parseNetConfList(value: unknown, options: ConfOptions): NetConfList {
  const subject = `invalid network configuration in ${options.source}`;
  const given = readJsonObject(value, subject);
  const written = spellKeys(options.name === undefined ? given : withoutOtherNames(given));
  if (options.unlimited !== true) checkPluginCount(written.plugins, options.source);
  const object = isSingle(written) ? upConvert(written) : written;
  const reading = { subject, reason: "InvalidNetworkConfig", foldCase: true } as const;
  const list = readDocument(object, reading, (fields) => {
    checkForm(fields, written, options.form);
    return readList(fields, options);
  });
  if (options.unlimited !== true) requireSupportedVersion(list.cniVersion, subject);
  return list;
}

/**
 * In a definition, `Name` is not the network's name with Multus either, and plugins keep addresses
 * by name.
 */
function withoutOtherNames(object: JsonObject): JsonObject {
  const isOther = (key: string): boolean => key !== "name" && key.toLowerCase() === "name";
  return Object.fromEntries(Object.entries(object).filter(([key]) => !isOther(key)));
}

function readList(fields: FieldReader, options: ConfOptions): NetConfList {
  const name = readName(fields, options);
  const versions = readVersion(fields);
  const inlineOnly = readFlag(fields, "loadOnlyInlinedPlugins");
  const plugins = readPlugins(fields, !inlineOnly && options.allowNoPlugins === true);
  const { cniVersions: _negotiated, ...kept } = fields.raw;
  return {
    ...versions,
    name,
    disableCheck: readFlag(fields, "disableCheck"),
    disableGC: readFlag(fields, "disableGC"),
    loadOnlyInlinedPlugins: inlineOnly,
    plugins,
    raw: { ...kept, cniVersion: versions.cniVersion, name },
  };
}

/** @throws CniError 100 when there are more plugins than the limit */
export function checkPluginCount(plugins: unknown, source: string): void {
  if (Array.isArray(plugins)) checkLimit(limits.plugins, plugins.length, `${source}: plugins`);
}

/** The capabilities that at least one plugin of the list has enabled. */
export function enabledCapabilities(list: NetConfList): Set<string> {
  return new Set(
    list.plugins.flatMap(({ capabilities }) =>
      Object.keys(capabilities).filter((key) => capabilities[key] === true),
    ),
  );
}

/** Adds keys to each plugin's configuration; they override existing ones. */
export function withPluginKeys(
  list: NetConfList,
  keysOf: (plugin: PluginConf, index: number) => JsonObject,
): NetConfList {
  const plugins = list.plugins.map((plugin, index) => ({
    ...plugin,
    raw: { ...plugin.raw, ...keysOf(plugin, index) },
  }));
  return { ...list, plugins };
}

/** The list as JSON, which {@link parseNetConfList} reads back. */
export function toJson({ raw, cniVersion, name, plugins }: NetConfList): JsonObject {
  return { ...raw, cniVersion, name, plugins: plugins.map((plugin) => plugin.raw) };
}

/** Whether a configuration has the single-plugin form, used until CNI 0.4.0. */
function isSingle(object: JsonObject): boolean {
  return Object.hasOwn(object, "type") && !Object.hasOwn(object, "plugins");
}

function checkForm(fields: FieldReader, written: JsonObject, form: ConfOptions["form"]): void {
  if (form === "plugin" && !isSingle(written)) {
    const hint = Object.hasOwn(written, "plugins") ? ": a list belongs in a .conflist file" : "";
    fields.problem("type", `is missing${hint}`);
  }
  if (form === "list" && isSingle(written)) {
    fields.problem("plugins", "is missing: a single plugin belongs in a .conf file");
  }
}

function upConvert(object: JsonObject): JsonObject {
  const { name = null, cniVersion = null } = object;
  return { name, cniVersion, plugins: [object] };
}

function readName(fields: FieldReader, options: ConfOptions): string {
  const name = fields.string("name") || options.name || "";
  const isMissing = name === "" && typeof (fields.value("name") ?? "") === "string";
  if (isMissing) fields.problem("name", "is missing");
  if (name !== "" && !isPlainName(name)) {
    fields.problem("name", withValue("invalid characters found in network name", name));
  }
  return name;
}

function readVersion(fields: FieldReader): Pick<NetConfList, "cniVersion" | "written"> {
  const cniVersion = fields.string("cniVersion") ?? "";
  const cniVersions = fields.strings("cniVersions");
  for (const candidate of [cniVersion, ...cniVersions]) {
    try {
      parseVersion(candidate);
    } catch (error) {
      const key = candidate === cniVersion ? "cniVersion" : "cniVersions";
      fields.problem(key, errorMessage(error));
      return { cniVersion };
    }
  }
  const chosen = negotiateVersion(cniVersion, cniVersions);
  if (cniVersions.length === 0) return { cniVersion: chosen };
  return { cniVersion: chosen, written: { cniVersion, cniVersions } };
}

/** A boolean, or "true" or "false" in any case, as CNI 0.4.0 had it. */
function readFlag(fields: FieldReader, key: string): boolean {
  const value = fields.value(key) ?? false;
  const text = typeof value === "string" ? value.toLowerCase() : value;
  if (text !== true && text !== false && text !== "true" && text !== "false") {
    fields.mismatch(key, "true or false");
  }
  return text === true || text === "true";
}

function readPlugins(fields: FieldReader, allowNone: boolean): PluginConf[] {
  const plugins = fields.objects("plugins").map(readPlugin);
  const written = fields.value("plugins");
  if (written === undefined && !allowNone) fields.problem("plugins", "is missing, and so is type");
  if (Array.isArray(written) && written.length === 0)
    fields.problem("plugins", "no plugins in list");
  return plugins;
}

/** The plugins of networks, each once. Not IPAM plugins, as some plugins have theirs built in. */
export function pluginTypes(networks: readonly { readonly list: NetConfList }[]): string[] {
  return [...new Set(networks.flatMap(({ list }) => list.plugins.map(({ type }) => type)))];
}
