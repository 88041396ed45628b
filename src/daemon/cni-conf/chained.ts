import type { NetConfList } from "#cni/conf/conf.ts";
import type { PluginConf } from "#cni/conf/plugin-conf.ts";
import { isSamePlugin } from "#cni/conf/same-plugin.ts";
import type { OmittedPlugin } from "#engine/config.ts";

/*
 * An agent may have its plugin in the primary CNI's file too: some agents patch every file, others
 * the first one, which was the primary's before Plexus came. A plugin must run once per pod, so
 * the default network leaves it out when the container runtime runs it behind Plexus's.
 */

/** Leaves out of the primary's list what runs behind Plexus. @returns also what was left out */
export function withoutElsewhere(
  list: NetConfList,
  elsewhere: readonly OmittedPlugin[],
): { readonly list: NetConfList; readonly omitted: readonly OmittedPlugin[] } {
  const isElsewhere = ({ raw }: PluginConf): boolean =>
    elsewhere.some((other) => isSamePlugin(raw, other));
  const plugins = list.plugins.filter((plugin) => !isElsewhere(plugin));
  // A default network without plugins would fail every pod.
  if (plugins.length === 0) return { list, omitted: [] };
  const omitted = distinct(list.plugins.filter(isElsewhere)).map(omissionOf);
  return { list: omitted.length === 0 ? list : { ...list, plugins }, omitted };
}

/** What other files have, as {@link adopt} needs it. */
interface ElsewhereConf {
  /** What was adopted until now. */
  readonly adopted: readonly OmittedPlugin[];
  /** Of copies of Plexus's file that the container runtime does not use. */
  readonly copied: readonly PluginConf[];
  /** Of all other files. */
  readonly others: readonly PluginConf[];
}

/**
 * What follows Plexus's plugin, and which of it is adopted. The agents of Cilium and Istio can write
 * a separate list: a copy of Plexus's file with their plugin. The container runtime uses only the
 * first file, so Plexus's file adopts the plugin, until no other file has it.
 */
export function adopt(
  chained: readonly PluginConf[],
  { adopted, copied, others }: ElsewhereConf,
): { readonly chained: readonly PluginConf[]; readonly adopted: readonly OmittedPlugin[] } {
  const isAdopted = ({ raw }: PluginConf): boolean =>
    adopted.some((each) => isSamePlugin(raw, each));
  const isIn = (plugins: readonly PluginConf[], { raw }: PluginConf): boolean =>
    plugins.some((each) => isSamePlugin(raw, each.raw));
  const kept = chained.filter((plugin) => !isAdopted(plugin) || isIn(others, plugin));
  const added = copied.filter((plugin) => !isIn(kept, plugin));
  const all = distinct([...kept, ...added]);
  const now = all.filter((plugin) => isAdopted(plugin) || isIn(added, plugin));
  return { chained: all, adopted: now.map(omissionOf) };
}

/** How the default network names a plugin that it leaves out. */
export function omissionOf({ type, raw }: PluginConf): OmittedPlugin {
  return typeof raw.name === "string" ? { type, name: raw.name } : { ...raw, type };
}

/** The last of each, because agents append: some append their plugin again. */
export function distinct(plugins: readonly PluginConf[]): PluginConf[] {
  return plugins.filter(
    ({ raw }, i) => !plugins.slice(i + 1).some((later) => isSamePlugin(raw, later.raw)),
  );
}
