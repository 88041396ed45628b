import { join } from "node:path";
import { enabledCapabilities, type NetConfList, parseNetConfList } from "#cni/conf/conf.ts";
import type { PluginConf } from "#cni/conf/plugin-conf.ts";
import { compareVersions, isSupportedVersion } from "#cni/versions.ts";
import type { NodeConfSpec } from "#daemon/config/config.ts";
import { namedPlugins, type OmittedPlugin, plexusdsListMark } from "#engine/config.ts";
import { delegateList } from "#engine/delegate-list.ts";
import { plexusConfName } from "#lib/files/default-paths.ts";
import { isJsonObject, type JsonObject, parseExactly } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { isMetaPluginType } from "#npwg/meta-plugins.ts";
import { podAnnotationsCapability } from "#npwg/object-meta.ts";
import type { Primary } from "./candidates.ts";

/** The first version with lists; results of an older primary are converted. */
const oldestListVersion = "0.3.1";

/** Without a primary: the version that current runtimes use. */
const defaultVersion = "1.0.0";

/** For a default network that is configured by reference, so its name is unknown. */
const defaultName = "plexus";

/** Keys of the primary's list that are not switches for the container runtime. */
const notCopied = ["name", "cniVersion", "plugins", "type", "prevResult", "runtimeConfig"];

/**
 * Plexus's file. plexusd owns the list and Plexus's plugin in it. Agents of service meshes append
 * plugins behind Plexus's; the container runtime runs them, and plexusd keeps them.
 */
export interface PlexusConf {
  /** The list with Plexus's plugin alone. */
  readonly own: OwnConf;
  readonly chained: readonly PluginConf[];
}

export type OwnConf = JsonObject & { plugins: [JsonObject] };

interface PlexusConfParts extends Pick<NodeConfSpec, "primaryDir" | "capabilities" | "delegates"> {
  /** Absent if plexusd's configuration names the default network. */
  readonly primary: Primary | undefined;
  /** Plugins that the default network leaves out. */
  readonly omitted: readonly OmittedPlugin[];
}

/**
 * What plexusd owns of its file. The list has the default network's name, because runtimes store
 * attachments under it (libcni's cache, CRI-O's valid attachments). So they also find pods attached
 * before Plexus was installed or deleted after it was removed. It also has the primary's switches,
 * such as disableGC, which the runtime reads only here. Plugins beside the primary's file run as a
 * part of the default network, so the runtime must not load them too.
 */
export function plexusConf(options: PlexusConfParts): OwnConf {
  const { primary, primaryDir, omitted } = options;
  const [inline] = options.delegates;
  const list = primary?.list ?? (inline && delegateList(inline, 0));
  const plugin = omitUndefined({
    type: "plexus",
    ...plexusdsListMark,
    clusterNetwork: primary && join(primaryDir, primary.file),
    capabilities: capabilitiesOf(primary, options.capabilities),
    omittedPlugins: omitted.length === 0 ? undefined : [...omitted],
  });
  return {
    ...versionsOf(primary),
    name: list?.name ?? defaultName,
    ...switchesOf(list),
    loadOnlyInlinedPlugins: true,
    plugins: [plugin],
  };
}

/** With the plugins that follow Plexus's only because other files have them. */
export function withAdopted(own: OwnConf, adopted: readonly OmittedPlugin[]): OwnConf {
  const adoptedPlugins = adopted.length === 0 ? undefined : [...adopted];
  return { ...own, plugins: [omitUndefined({ ...own.plugins[0], adoptedPlugins })] };
}

export function adoptedOf(own: OwnConf | undefined): OmittedPlugin[] {
  return namedPlugins(own?.plugins[0].adoptedPlugins);
}

/** Runtimes pass only the outermost plugin's capabilities. Annotations save reads of the API. */
function capabilitiesOf(
  primary: Primary | undefined,
  configured: Readonly<Record<string, boolean>>,
): Record<string, true> {
  const names = new Set(primary === undefined ? [] : enabledCapabilities(primary.list));
  names.add(podAnnotationsCapability);
  for (const [name, wanted] of Object.entries(configured)) {
    if (wanted) names.add(name);
    else names.delete(name);
  }
  return Object.fromEntries([...names].sort().map((name) => [name, true]));
}

/** As written, because the container runtime may support fewer versions, but none that Plexus lacks. */
function versionsOf(primary: Primary | undefined): JsonObject & { cniVersion: string } {
  if (primary === undefined) return { cniVersion: defaultVersion };
  const { cniVersion, written } = primary.list;
  if (written !== undefined) {
    const first = isSupportedVersion(written.cniVersion) ? written.cniVersion : cniVersion;
    return { cniVersion: first, cniVersions: written.cniVersions.filter(isSupportedVersion) };
  }
  const isOld = cniVersion === "" || compareVersions(cniVersion, oldestListVersion) < 0;
  return { cniVersion: isOld ? oldestListVersion : cniVersion };
}

function switchesOf(list: NetConfList | undefined): JsonObject {
  const { raw = {}, disableCheck, disableGC } = list ?? {};
  const others = Object.entries(raw).filter(([key]) => !notCopied.includes(key));
  const flags = Object.entries({ disableCheck, disableGC }).filter(([, isSet]) => isSet === true);
  return Object.fromEntries([...others, ...flags] as [string, JsonObject[string]][]);
}

export function textOf({ own, chained }: PlexusConf): string {
  const plugins = [...own.plugins, ...chained.map(({ raw }) => raw)];
  return `${JSON.stringify({ ...own, plugins }, undefined, 2)}\n`;
}

/** Reads a list that begins with Plexus's plugin; undefined for another or an unusable one. */
export function parsePlexusConf(text: string): PlexusConf | undefined {
  try {
    const { plugins } = parseNetConfList(text, { source: plexusConfName, form: "list" });
    const [plugin, ...chained] = plugins;
    if (plugin?.type !== "plexus") return undefined;
    if (chained.some(({ type }) => isMetaPluginType(type))) return undefined;
    return { own: { ...(parseExactly(text) as JsonObject), plugins: [plugin.raw] }, chained };
  } catch {
    return undefined;
  }
}

/** The plugins of any list; none of an unusable one. */
export function pluginsOf(text: string): readonly PluginConf[] {
  try {
    return parseNetConfList(text, { source: "a file" }).plugins;
  } catch {
    return [];
  }
}

/** Plexus's plugin configuration in the text of its file; empty if there is none. */
export function pluginConfOf(text: string | undefined): JsonObject {
  try {
    const list: unknown = parseExactly(text ?? "{}");
    const plugins = isJsonObject(list) && Array.isArray(list.plugins) ? list.plugins : [];
    return plugins.filter(isJsonObject).find(({ type }) => type === "plexus") ?? {};
  } catch {
    return {};
  }
}
